package ui

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/a-h/templ"

	"counterfoil/views/locale"
)

// Say is a sentence; its times carry the exact time on hover and in the source.
func Say(t locale.Text) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		var b strings.Builder
		say(&b, locale.From(ctx), t)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func say(b *strings.Builder, p locale.Printer, t locale.Text) {
	for _, part := range p.Parts(t.Key, t.Args...) {
		switch v := part.(type) {
		case time.Time:
			moment(b, p, v, p.Short(v), "")
		case locale.Ago:
			if v.IsZero() || !p.Recent(v.Time) {
				moment(b, p, v.Time, p.Ago(v.Time), "")
			} else {
				moment(b, p, v.Time, p.Ago(v.Time), ` data-age="ago"`)
			}
		case locale.Text:
			say(b, p, v)
		default:
			b.WriteString(templ.EscapeString(p.Value(v)))
		}
	}
}

func moment(b *strings.Builder, p locale.Printer, t time.Time, text, more string) {
	if t.IsZero() {
		b.WriteString(templ.EscapeString(text))
		return
	}
	b.WriteString(`<time datetime="` + iso(t) + `" title="` + templ.EscapeString(p.Exact(t)) + `"` + more + `>` + templ.EscapeString(text) + `</time>`)
}
