package staff

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"

	"counterfoil/models"
)

// The cost of one password hash: about 80 ms and 32 MiB. At most two are made at
// once, so that a burst of sign-ins takes no more than 64 MiB and leaves a core to
// the receiver.
const (
	hashMemory   = 32 << 10 // KiB
	hashPasses   = 3
	hashThreads  = 1
	hashLen      = 32
	saltLen      = 16
	hashesAtOnce = 2
	hashWait     = 10 * time.Second
)

// A password's length in bytes. The upper limit keeps a sign-in from hashing megabytes.
const (
	minPassword = 12
	maxPassword = 1024
)

// hash makes the stored form of a password.
func (s *Service) hash(ctx context.Context, password string) (string, error) {
	if err := s.queue(ctx); err != nil {
		return "", err
	}
	defer func() { <-s.hashes }()
	salt := make([]byte, saltLen)
	_, _ = rand.Read(salt) // never fails
	return encode(salt, argon2.IDKey([]byte(password), salt, hashPasses, hashMemory, hashThreads, hashLen)), nil
}

// matches tells whether a password is the stored one.
func (s *Service) matches(ctx context.Context, stored, password string) (bool, error) {
	var memory, passes uint32
	var threads uint8
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, fmt.Errorf("staff: a stored password has an unknown form")
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads); err != nil {
		return false, fmt.Errorf("staff: a stored password can't be read: %w", err)
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, fmt.Errorf("staff: a stored password can't be read: %w", err)
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		return false, fmt.Errorf("staff: a stored password can't be read: %w", err)
	}
	if err := s.queue(ctx); err != nil {
		return false, err
	}
	defer func() { <-s.hashes }()
	got := argon2.IDKey([]byte(password), salt, passes, memory, threads, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

// queue waits for a turn to hash, not for ever.
func (s *Service) queue(ctx context.Context) error {
	timer := time.NewTimer(hashWait)
	defer timer.Stop()
	select {
	case s.hashes <- struct{}{}:
		return nil
	case <-timer.C:
		return models.Fail(models.Unavailable, "login.busy")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func encode(salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, hashMemory, hashPasses, hashThreads, b64.EncodeToString(salt), b64.EncodeToString(key))
}

// decoy is a stored form that no password matches. It is tried for unknown accounts,
// which then take as long as known ones.
func decoy() string {
	b := make([]byte, saltLen+hashLen)
	_, _ = rand.Read(b) // never fails
	return encode(b[:saltLen], b[saltLen:])
}

// generate makes a password that can be read out: 100 random bits in four groups.
func generate() string {
	t := strings.ToLower(rand.Text())
	return t[0:5] + "-" + t[5:10] + "-" + t[10:15] + "-" + t[15:20]
}
