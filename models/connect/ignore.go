package connect

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Ignores tells whether a topic belongs to another system on the same account, by the
// setting ignore_topics: names separated by commas, * at the end for all that begin so.
func (c *Conn) Ignores(topic string) bool {
	for rule := range strings.SplitSeq(c.Set["ignore_topics"], ",") {
		rule = strings.TrimSpace(rule)
		if begin, open := strings.CutSuffix(rule, "*"); open && begin != "" && strings.HasPrefix(topic, begin) || rule != "" && rule == topic {
			return true
		}
	}
	return false
}

// checkTopics refuses a rule that would dismiss everything, or nothing.
func checkTopics(value string) error {
	for rule := range strings.SplitSeq(value, ",") {
		rule = strings.TrimSpace(rule)
		if i := strings.IndexByte(rule, '*'); rule == "" || rule == "*" || i >= 0 && i != len(rule)-1 {
			return fmt.Errorf("--set ignore_topics must be topics separated by commas, like customer.created,invoice.*")
		}
	}
	return nil
}

// ruled tells whether two settings, as kept, differ in the rules that say to which order
// something belongs, or that it is another system's.
func ruled(before, after string) bool {
	var was, is struct {
		Topics   string `json:"ignore_topics"`
		Metadata string `json:"ignore_metadata"`
		Key      string `json:"order_key"`
	}
	_ = json.Unmarshal([]byte(before), &was) // merge has read both
	_ = json.Unmarshal([]byte(after), &is)
	return was != is
}
