package platform

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"counterfoil/models"
)

// A Subscriber is an adapter whose platform lists, makes and changes what it sends
// notifications of by its API.
type Subscriber interface {
	Adapter
	// Needed are the topics without which changes would stay unannounced.
	Needed() []string
	// Subscriptions lists those that the API shows. Ones made elsewhere needn't be
	// among them. The error is as Fetch's.
	Subscriptions(ctx context.Context) ([]Subscription, error)
	// Register makes what is missing for an address and mends what of the same
	// connection is wrong; what is right, or belongs to somebody else, stays. A request
	// that the platform refuses for its own reasons is a *NotRegistered.
	Register(ctx context.Context, address string) (Registered, error)
	// Unregister takes one away, by its id.
	Unregister(ctx context.Context, id string) error
}

// A Subscription is what a platform sends where.
type Subscription struct {
	ID      string
	Address string
	Topics  []string // "*" is all of them
	Off     bool     // it is there and sends nothing
	Version string   // API version of its bodies; empty: not stated, or the account's own
	Format  string   // json where not stated
}

// A Registered says what was done.
type Registered struct {
	Made   int
	Mended int
	// Secrets sign what the ones that were made send; the platform tells them once.
	Secrets []string
	IDs     []string // of the ones that were made
}

// A NotRegistered says, in the platform's words, why it didn't do it.
type NotRegistered struct{ Detail string }

func (n *NotRegistered) Error() string { return "not registered: " + n.Detail }

// JudgeSubscriptions says what is wrong with each needed topic; one that isn't in the
// answer is sent as it should be. ours is the connection's path, address the whole
// address where it is known. version is what bodies should be rendered in; empty: any.
func JudgeSubscriptions(needed []string, list []Subscription, ours, address, version string) map[string]models.SubscriptionFault {
	wrong := map[string]models.SubscriptionFault{}
	for _, topic := range needed {
		worst := models.SubscriptionAbsent
		for _, s := range list {
			if !slices.Contains(s.Topics, topic) && !slices.Contains(s.Topics, "*") || !SameDoor(s.Address, ours) {
				continue
			}
			fault := models.SubscriptionFault("")
			switch {
			case s.Off:
				fault = models.SubscriptionOff
			case address != "" && strings.TrimSuffix(s.Address, "/") != address:
				fault = models.SubscriptionElsewhere
			case s.Format != "" && !strings.EqualFold(s.Format, "json"):
				fault = models.SubscriptionFormat
			case version != "" && s.Version != "" && s.Version != version:
				fault = models.SubscriptionVersion
			}
			if worst = fault; fault == "" {
				break
			}
		}
		if worst != "" {
			wrong[topic] = worst
		}
	}
	return wrong
}

// SameDoor tells whether an address leads to a connection's path on any host.
func SameDoor(address, path string) bool {
	u, err := url.Parse(address)
	return err == nil && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), path)
}

// DoorOf is the path at the end of an address to which notifications go.
func DoorOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	p := strings.TrimSuffix(u.Path, "/")
	if i := strings.LastIndex(p, "/hooks/"); i >= 0 {
		return p[i:]
	}
	return p
}
