package platform

import (
	"context"
	"time"

	"counterfoil/models"
)

// A Signer is an adapter that signs a body as its platform would, so that a check of
// the connection can try its own verifier. secret is a place in Config.Webhook.
type Signer interface {
	Sign(secret int, body []byte, at time.Time) Request
}

// A Shaper is an adapter that shows which paths and types an object has, never values.
// The error is as Fetch's; an object that can't be read is a nil shape with why.
type Shaper interface {
	Shape(ctx context.Context, ref models.ObjectRef) (models.Shape, models.Absence, error)
}

// A Limited is an adapter that knows what its platform still allows.
type Limited interface {
	Limits() []models.Note
}

// A Speaker is an adapter that tells when its platform speaks another API version than
// the one that is set, as the last answer's headers said.
type Speaker interface {
	Spoken() []models.Note
}

// A Leaner is an adapter whose lists can answer lean readings, which state only words,
// times and sums: cheap enough to look at everything.
type Leaner interface {
	Adapter
	// Agrees tells whether a lean reading says nothing that a whole one, read before,
	// doesn't say too. Where it does, the object has to be read whole.
	Agrees(whole, lean models.Observation) bool
}
