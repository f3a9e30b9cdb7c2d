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
	return told(func(b *strings.Builder, p locale.Printer) { say(b, p, t) })
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

// Ago is a moment by its distance, with the exact time on hover and in the source.
func Ago(t time.Time) templ.Component { return Say(locale.Say("value", locale.Ago{Time: t})) }

// Time is a moment as short as today's reader can do with; nothing where there is none.
func Time(t time.Time) templ.Component { return Say(locale.Say("value", t)) }

// Age is how old something is: 33 min.
func Age(t time.Time) templ.Component {
	return told(func(b *strings.Builder, p locale.Printer) {
		switch {
		case t.IsZero():
			b.WriteString("–")
		case p.Recent(t):
			moment(b, p, t, p.Span(p.Now().Sub(t)), ` data-age="span"`)
		default:
			moment(b, p, t, p.Short(t), "")
		}
	})
}

// Clock is the time of a day that stands above it.
func Clock(t time.Time) templ.Component {
	return told(func(b *strings.Builder, p locale.Printer) { moment(b, p, t, p.Clock(t), "") })
}

func told(write func(*strings.Builder, locale.Printer)) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		var b strings.Builder
		write(&b, locale.From(ctx))
		_, err := io.WriteString(w, b.String())
		return err
	})
}

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func moment(b *strings.Builder, p locale.Printer, t time.Time, text, more string) {
	if t.IsZero() {
		b.WriteString(templ.EscapeString(text))
		return
	}
	b.WriteString(`<time datetime="` + iso(t) + `" title="` + templ.EscapeString(p.Exact(t)) + `"` + more + `>` + templ.EscapeString(text) + `</time>`)
}
