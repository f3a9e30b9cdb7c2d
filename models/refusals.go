package models

import "time"

const (
	refusedMany  = 20               // in ten minutes are more than a stranger's tries
	refusedAlone = 15 * time.Minute // without a genuine notification
	refusedQuiet = time.Hour        // without a refusal
	// CaseAlone is of signature_failures: no genuine notification arrives any more.
	CaseAlone = "alone"
)

// Refusing judges how a connection's door refuses: the case that opens or stays open
// (empty: none), and whether an open one is over.
func Refusing(open string, recent int64, last, good, now time.Time) (name string, over bool) {
	switch {
	case open == CaseAlone && good.After(last), open != "" && now.Sub(last) > refusedQuiet:
		return "", true
	case open == "" && recent < refusedMany:
		return "", false
	case now.Sub(good) > refusedAlone:
		return CaseAlone, false
	}
	return CaseGoodOnes, false
}
