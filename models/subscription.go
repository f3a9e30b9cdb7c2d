package models

import "time"

// A SubscriptionFault says what is wrong with the subscription to a topic.
type SubscriptionFault string

const (
	SubscriptionAbsent    SubscriptionFault = "absent"
	SubscriptionOff       SubscriptionFault = "off"       // it is there and sends nothing
	SubscriptionElsewhere SubscriptionFault = "elsewhere" // it sends to another address
	SubscriptionFormat    SubscriptionFault = "format"    // not JSON
	SubscriptionVersion   SubscriptionFault = "version"   // in another API version than the connection's
)

// SubscriptionFaults lists all faults; the schema has the same list.
var SubscriptionFaults = []SubscriptionFault{SubscriptionAbsent, SubscriptionOff, SubscriptionElsewhere, SubscriptionFormat, SubscriptionVersion}

// SubscriptionPatience is how long a fault must last before it is an exception: a
// platform may be in the middle of a change.
const SubscriptionPatience = 5 * time.Minute

// SubscriptionWay says who looks after a connection's subscriptions.
type SubscriptionWay string

const (
	WayAPI    SubscriptionWay = "api"    // this console, by the platform's API
	WayAdmin  SubscriptionWay = "admin"  // people, on the platform's own pages
	WayConfig SubscriptionWay = "config" // the app's configuration
)

// SubscriptionWayOf is the way in force: as set, else by the API once the console has
// registered some. What was set up elsewhere is never called missing.
func SubscriptionWayOf(set string, registered bool) SubscriptionWay {
	switch {
	case set != "":
		return SubscriptionWay(set)
	case registered:
		return WayAPI
	}
	return WayAdmin
}

// A SubscriptionFile is what the page of a connection's notifications shows.
type SubscriptionFile struct {
	Way        SubscriptionWay
	Chosen     bool // by an admin
	Address    string
	Registered time.Time
	By         string
	Looked     time.Time // when the platform last answered
	Error      string    // why it couldn't be asked since
	Topics     []SubscriptionTopic
}

// A SubscriptionTopic is how one needed topic stands.
type SubscriptionTopic struct {
	Topic string
	Fault SubscriptionFault // empty: as it should be
	Since time.Time         // of the fault
}
