package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"counterfoil/models/seal"
)

func mustParse(tb testing.TB, text string) seal.Keys {
	tb.Helper()
	keys, err := seal.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

// fixed is a key that is the same in every run.
func fixed(fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

func TestParse(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte{0xfb}, 32)
	tests := []struct {
		name, text string
		keys       int
		err        string
	}{
		{"one", fixed(1), 1, ""},
		{"two", fixed(1) + "," + fixed(2), 2, ""},
		{"spaces and a trailing comma", " " + fixed(1) + " ,\n" + fixed(2) + ",\n", 2, ""},
		{"url alphabet", base64.URLEncoding.EncodeToString(raw), 1, ""},
		{"no padding", base64.RawStdEncoding.EncodeToString(raw), 1, ""},
		{"empty", "", 0, "no key given"},
		{"only commas", " ,, ", 0, "no key given"},
		{"not base64", fixed(1) + ",!!secret!!", 0, "key 2 of 2 isn't base64"},
		{"short", base64.StdEncoding.EncodeToString(raw[:16]), 0, "key 1 of 1 has 16 bytes, it needs 32"},
		{"hex by mistake", strings.Repeat("fb", 32), 0, "key 1 of 1 has 48 bytes"},
		{"twice", fixed(1) + "," + fixed(2) + "," + fixed(1), 0, "keys 1 and 3 are the same"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			keys, err := seal.Parse(tt.text)
			if tt.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				if n := len(keys.Fingerprints()); n != tt.keys {
					t.Errorf("%d keys, want %d", n, tt.keys)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Error("the error shows the key")
			}
		})
	}
}

func TestSealedValueOpensOnlyWithItsKeyAndPlace(t *testing.T) {
	t.Parallel()
	keys := mustParse(t, fixed(1))
	for _, size := range []int{0, 1, 15, 16, 2048, 1 << 20} {
		plain := bytes.Repeat([]byte{'x'}, size)
		sealed := keys.Seal(plain, []byte("payload 7"))
		if len(sealed) != size+seal.Overhead {
			t.Errorf("%d bytes sealed to %d, want %d more", size, len(sealed), seal.Overhead)
		}
		opened, err := keys.Open(sealed, []byte("payload 7"))
		if err != nil || !bytes.Equal(opened, plain) {
			t.Errorf("%d bytes: opened %d bytes, error %v", size, len(opened), err)
		}
		if _, err := keys.Open(sealed, []byte("payload 8")); !errors.Is(err, seal.ErrAltered) {
			t.Errorf("%d bytes opened at another place: %v", size, err)
		}
		if _, err := mustParse(t, fixed(2)).Open(sealed, []byte("payload 7")); !errors.Is(err, seal.ErrUnknownKey) {
			t.Errorf("%d bytes: error %v, want ErrUnknownKey", size, err)
		}
	}
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	t.Parallel()
	keys := mustParse(t, fixed(1)+","+fixed(2))
	sealed := keys.Seal([]byte("an address"), nil)
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		want := seal.ErrAltered
		if i >= 1 && i <= 4 {
			want = seal.ErrUnknownKey
		}
		if _, err := keys.Open(changed, nil); !errors.Is(err, want) {
			t.Errorf("byte %d changed: error %v, want %v", i, err, want)
		}
	}
	for n := range sealed {
		if _, err := keys.Open(sealed[:n], nil); !errors.Is(err, seal.ErrAltered) {
			t.Errorf("cut to %d bytes: error %v", n, err)
		}
	}
}

func TestSameValueIsSealedDifferentlyEachTime(t *testing.T) {
	t.Parallel()
	keys := mustParse(t, fixed(1))
	if bytes.Equal(keys.Seal([]byte("same"), nil), keys.Seal([]byte("same"), nil)) {
		t.Error("two sealings are equal")
	}
}

func TestReplacedKeyStillOpens(t *testing.T) {
	t.Parallel()
	before := mustParse(t, fixed(1))
	during := mustParse(t, fixed(2)+","+fixed(1))
	sealed := before.Seal([]byte("kept"), nil)
	if opened, err := during.Open(sealed, nil); err != nil || string(opened) != "kept" {
		t.Fatalf("opened %q, error %v", opened, err)
	}
	if by := seal.FingerprintOf(sealed); by != before.Fingerprint() || by == during.Fingerprint() {
		t.Errorf("sealed by %s", by)
	}
	again := during.Seal([]byte("kept"), nil)
	if seal.FingerprintOf(again) != during.Fingerprint() {
		t.Error("the first key didn't seal")
	}
	if _, err := before.Open(again, nil); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("error %v, want ErrUnknownKey", err)
	}
	if by := seal.FingerprintOf([]byte("plain text that is long enough for a header")); by != "" {
		t.Errorf("plain text was sealed by %q", by)
	}
}

// The values are part of what is stored (audit, sessions): they must never move.
func TestDerivedKeysStayTheSame(t *testing.T) {
	t.Parallel()
	keys := mustParse(t, fixed(2)+","+fixed(1))
	if got, want := fmt.Sprintf("%x", keys.Derive("audit")[:8]), "3113a5ec1ebd5afe"; got != want {
		t.Errorf("audit key begins with %s, want %s", got, want)
	}
	if got, want := keys.Fingerprint(), "75877bb4"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
	all := keys.DeriveAll("audit")
	if len(all) != 2 || !bytes.Equal(all[0], keys.Derive("audit")) {
		t.Fatalf("%d keys, or the first isn't first", len(all))
	}
	if !bytes.Equal(all[1], mustParse(t, fixed(1)).Derive("audit")) {
		t.Error("the older key derives something else")
	}
	if bytes.Equal(all[0], keys.Derive("session")) || bytes.Equal(all[0], all[1]) {
		t.Error("labels or keys share a derived key")
	}
}

func TestSealingAllocatesOnlyItsOutput(t *testing.T) {
	keys := mustParse(t, fixed(2)+","+fixed(1))
	plain, place := make([]byte, 2048), []byte("payload")
	sealed := keys.Seal(plain, place)
	if n := testing.AllocsPerRun(100, func() { keys.Seal(plain, place) }); n > 1 {
		t.Errorf("Seal allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { keys.Open(sealed, place) }); n > 1 {
		t.Errorf("Open allocates %v times", n)
	}
}

func TestKeyFileIsCreatedPrivateAndKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	made := make([]string, 8)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			keys, err := seal.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
				return
			}
			made[i] = keys.Fingerprint()
		})
	}
	wg.Wait()
	for _, m := range made {
		if m != made[0] {
			t.Fatalf("several keys at once: %v", made)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, error %v", info.Mode(), err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("left behind beside the key: %v %v", files, err)
	}
}

func TestKeyFileThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(seal.New()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.LoadOrCreate(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %o: error %v", mode, err)
		}
	}
}

func TestDamagedKeyFileIsNeverReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.LoadOrCreate(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v doesn't name the file", err)
	}
	if text, _ := os.ReadFile(path); len(text) != 0 {
		t.Error("the file was written over")
	}
}

func TestRotateKeepsTheOldKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if _, err := seal.Rotate(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("rotated nothing: %v", err)
	}
	first, err := seal.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seal.Rotate(path); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	prints := keys.Fingerprints()
	if len(prints) != 2 || prints[1] != first.Fingerprint() {
		t.Errorf("keys %v, want a new one before %s", prints, first.Fingerprint())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
}

func FuzzOpen(f *testing.F) {
	keys := mustParse(f, fixed(2)+","+fixed(1))
	old := mustParse(f, fixed(1))
	f.Add([]byte{}, []byte{})
	f.Add(keys.Seal([]byte("{}"), []byte("a")), []byte("a"))
	f.Add(old.Seal(nil, nil), []byte{})
	f.Add(bytes.Repeat([]byte{1}, seal.Overhead), []byte("b"))
	f.Fuzz(func(t *testing.T, data, place []byte) {
		if _, err := keys.Open(data, place); err != nil && !errors.Is(err, seal.ErrAltered) && !errors.Is(err, seal.ErrUnknownKey) {
			t.Errorf("unexpected error %v", err)
		}
		opened, err := keys.Open(old.Seal(data, place), place)
		if err != nil || !bytes.Equal(opened, data) {
			t.Errorf("sealed and opened differ: %v", err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			keys, plain, place := mustParse(b, seal.New()), make([]byte, size), []byte("payload")
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				keys.Seal(plain, place)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	keys, place := mustParse(b, seal.New()), []byte("payload")
	sealed := keys.Seal(make([]byte, 2<<10), place)
	b.SetBytes(2 << 10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keys.Open(sealed, place); err != nil {
			b.Fatal(err)
		}
	}
}
