package stripe_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"counterfoil/models/platform/stripe"
)

var update = flag.Bool("update", false, "write the golden files")

func TestWordsAreTheTableThatWasAgreed(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, w := range stripe.Words() {
		fmt.Fprintf(&b, "%-24s %-24s %-8s %-11s %s", w.Field, w.Word, w.Axis, w.State, w.Note)
		s := strings.TrimRight(b.String(), " ") + "\n"
		b.Reset()
		b.WriteString(s)
		if !w.Axis.Has(w.State) {
			t.Errorf("%s has no state %s", w.Axis, w.State)
		}
	}
	const golden = "testdata/words.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("the table differs from %s; if it should, run with -update:\n%s", golden, b.String())
	}
}
