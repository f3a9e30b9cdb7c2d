package models

import "strings"

// Half turns full-width digits, letters and signs, as Chinese input methods type
// them, into half-width ones: ＃１０４２ is #1042.
func Half(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '！' && r <= '～':
			return r - '！' + '!'
		case r == '　':
			return ' '
		}
		return r
	}, s)
}

// RefForms lists the spellings under which a reference is kept and looked for: as it
// stands, and without the # that numbers carry.
func RefForms(s string) []string {
	s = strings.TrimSpace(Half(s))
	if s == "" || len(s) > 255 {
		return nil
	}
	if bare := strings.TrimLeft(s, "#"); bare != s && bare != "" {
		return []string{s, bare}
	}
	return []string{s}
}
