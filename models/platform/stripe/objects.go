package stripe

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// The objects hold only what is decided on. A pointer tells a missing number from 0.
type (
	intent struct {
		ID             string     `json:"id"`
		Status         string     `json:"status"`
		Amount         *int64     `json:"amount"`
		AmountReceived *int64     `json:"amount_received"`
		Currency       string     `json:"currency"`
		Created        int64      `json:"created"`
		CanceledAt     int64      `json:"canceled_at"`
		Livemode       *bool      `json:"livemode"`
		Metadata       metadata   `json:"metadata"`
		LastError      set        `json:"last_payment_error"`
		LatestCharge   chargeOrID `json:"latest_charge"`
		MethodTypes    []string   `json:"payment_method_types"`
		// Charges stands in events of versions before 2022-11-15 only.
		Charges *list[charge] `json:"charges"`
	}
	charge struct {
		ID             string        `json:"id"`
		Status         string        `json:"status"`
		Amount         *int64        `json:"amount"`
		AmountCaptured *int64        `json:"amount_captured"`
		AmountRefunded int64         `json:"amount_refunded"`
		Captured       bool          `json:"captured"`
		Refunded       bool          `json:"refunded"`
		Disputed       bool          `json:"disputed"`
		Dispute        id            `json:"dispute"`
		Currency       string        `json:"currency"`
		Created        int64         `json:"created"`
		Livemode       *bool         `json:"livemode"`
		Metadata       metadata      `json:"metadata"`
		PaymentIntent  id            `json:"payment_intent"`
		Refunds        *list[refund] `json:"refunds"`
		Method         struct {
			Type string `json:"type"`
		} `json:"payment_method_details"`
	}
	refund struct {
		ID                 string   `json:"id"`
		Status             string   `json:"status"`
		Amount             *int64   `json:"amount"`
		Currency           string   `json:"currency"`
		Created            int64    `json:"created"`
		Reason             string   `json:"reason"`
		FailureReason      string   `json:"failure_reason"`
		PendingReason      string   `json:"pending_reason"`
		BalanceTransaction id       `json:"balance_transaction"`
		PaymentIntent      id       `json:"payment_intent"`
		Charge             id       `json:"charge"`
		Metadata           metadata `json:"metadata"`
	}
	dispute struct {
		ID            string   `json:"id"`
		Status        string   `json:"status"`
		Reason        string   `json:"reason"`
		Amount        *int64   `json:"amount"`
		Currency      string   `json:"currency"`
		Created       int64    `json:"created"`
		Livemode      *bool    `json:"livemode"`
		PaymentIntent id       `json:"payment_intent"`
		Charge        id       `json:"charge"`
		Metadata      metadata `json:"metadata"`
		Evidence      struct {
			DueBy int64 `json:"due_by"`
		} `json:"evidence_details"`
	}
	session struct {
		ID              string   `json:"id"`
		Mode            string   `json:"mode"`
		Status          string   `json:"status"`
		PaymentStatus   string   `json:"payment_status"`
		AmountTotal     *int64   `json:"amount_total"`
		Currency        string   `json:"currency"`
		Created         int64    `json:"created"`
		Livemode        *bool    `json:"livemode"`
		ClientReference string   `json:"client_reference_id"`
		PaymentIntent   id       `json:"payment_intent"`
		Invoice         id       `json:"invoice"`
		Metadata        metadata `json:"metadata"`
	}
	invoice struct {
		ID       string   `json:"id"`
		Created  int64    `json:"created"`
		Livemode *bool    `json:"livemode"`
		Metadata metadata `json:"metadata"`
	}
	invoicePayment struct {
		ID        string `json:"id"`
		Status    string `json:"status"`
		IsDefault bool   `json:"is_default"`
		Payment   struct {
			PaymentIntent id `json:"payment_intent"`
			Charge        id `json:"charge"`
		} `json:"payment"`
	}
	list[T any] struct {
		Data    []T  `json:"data"`
		HasMore bool `json:"has_more"`
	}
)

// An id is a reference to another object, whether Stripe expanded it or not.
type id string

func (i *id) UnmarshalJSON(b []byte) error {
	*i = ""
	if len(b) > 0 && b[0] == '{' {
		var object struct {
			ID string `json:"id"`
		}
		err := json.Unmarshal(b, &object)
		*i = id(object.ID)
		return err
	}
	return json.Unmarshal(b, (*string)(i))
}

// A chargeOrID is a charge that may be expanded.
type chargeOrID struct {
	ID   string
	Full *charge
}

func (c *chargeOrID) UnmarshalJSON(b []byte) error {
	*c = chargeOrID{}
	if len(b) > 0 && b[0] == '{' {
		c.Full = &charge{}
		err := json.Unmarshal(b, c.Full)
		c.ID = c.Full.ID
		return err
	}
	return json.Unmarshal(b, &c.ID)
}

// A set tells whether a field holds anything; what it holds varies too much to rely on.
type set bool

func (s *set) UnmarshalJSON(b []byte) error {
	*s = set(!bytes.Equal(b, []byte("null")))
	return nil
}

// Metadata are the merchant's own keys. What isn't text is left out.
type metadata map[string]string

func (m *metadata) UnmarshalJSON(b []byte) error {
	var raw map[string]any
	_ = json.Unmarshal(b, &raw)
	*m = metadata{}
	for k, v := range raw {
		if s, ok := v.(string); ok {
			(*m)[k] = s
		}
	}
	return nil
}

// lastSecond is the end of the year 9999, the last that JSON can write.
const lastSecond = 253402300799

// at is a time of Stripe's; zero where there is none.
func at(seconds int64) time.Time {
	if seconds <= 0 || seconds > lastSecond {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// maxText bounds ids, words and topics; Stripe's own ids end at 255 characters.
const maxText = 255

// clean makes foreign text short and printable. What it can't show becomes U+FFFD.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
