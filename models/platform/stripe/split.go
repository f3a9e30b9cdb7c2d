package stripe

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// An envelope holds the fields of one JSON object as they were sent. Events have been
// shaped differently over the years, so each field is read by itself and none can
// spoil the others.
type envelope map[string]json.RawMessage

// read decodes one field and leaves into alone where it can't be.
func (e envelope) read(field string, into any) {
	if raw, ok := e[field]; ok {
		_ = json.Unmarshal(raw, into)
	}
}

// text is a field that holds text; empty where it doesn't.
func (e envelope) text(field string) string {
	raw := e[field]
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	e.read(field, &s)
	return s
}

// split takes a JSON object apart without decoding it. The bytes must be valid JSON:
// every notification passes here before it is answered, and checking it once for all
// its levels costs a tenth of decoding it level by level. Anything but an object has
// no fields.
func split(b []byte) envelope {
	i := blanks(b, 0)
	if i >= len(b) || b[i] != '{' {
		return nil
	}
	e := envelope{}
	for i = blanks(b, i+1); i < len(b) && b[i] == '"'; i = blanks(b, i+1) {
		end := skip(b, i)
		name := key(b[i:end])
		from := blanks(b, blanks(b, end)+1)
		end = skip(b, from)
		e[name] = json.RawMessage(b[from:end:end])
		i = blanks(b, end)
		if i >= len(b) || b[i] != ',' {
			break
		}
	}
	return e
}

func key(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s)
	return s
}

func blanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skip is the end of the value that begins at i.
func skip(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = quoted(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
		default:
			for i < len(b) && bytes.IndexByte([]byte(",]} \n\r\t"), b[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}

// quoted is the end of the text that begins at i.
func quoted(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		slashes := 0
		for slashes < n && b[i+n-1-slashes] == '\\' {
			slashes++
		}
		i += n
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}
