package inbox

import (
	"sync"

	"counterfoil/models/store"
)

// suspects are the objects of a call for many that failed although the platform
// answers. Each process learns them anew.
type suspects struct {
	mu  sync.Mutex
	ids map[int64]bool
}

func newSuspects() *suspects { return &suspects{ids: map[int64]bool{}} }

func (s *suspects) apart(claims []store.Claim) (shared, alone []store.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		if s.ids[c.ObjectID] {
			alone = append(alone, c)
		} else {
			shared = append(shared, c)
		}
	}
	return shared, alone
}

func (s *suspects) has(c store.Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[c.ObjectID]
}

func (s *suspects) add(claims []store.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		s.ids[c.ObjectID] = true
	}
}

func (s *suspects) clear(claims []store.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		delete(s.ids, c.ObjectID)
	}
}
