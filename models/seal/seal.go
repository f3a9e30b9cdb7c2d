// Package seal seals and opens what must not be readable in the database:
// payloads and the secrets of connections.
//
// A sealed value is
//
//	version (1 byte) · key id (4 bytes) · nonce (12) · AES-256-GCM ciphertext · tag (16)
//
// so that several keys can be in use while one replaces another: the first key
// seals, all of them open.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

const (
	version    = 1
	keySize    = 32
	idSize     = 4
	headerSize = 1 + idSize
	nonceTag   = 12 + 16

	// Overhead is how much longer a sealed value is than the plain one.
	Overhead = headerSize + nonceTag
)

var (
	// ErrUnknownKey says that a value was sealed with a key that isn't among
	// these: it may be whole, and opens once that key is given.
	ErrUnknownKey = errors.New("seal: sealed with a key that isn't given")

	// ErrAltered says that a value isn't what was sealed, or that it was sealed
	// for another place (other additional data). No key will open it.
	ErrAltered = errors.New("seal: altered, or not sealed for this place")
)

// Keys are the program's secret keys. Parse and LoadOrCreate make them; there
// is always at least one. They are safe for use by many goroutines.
type Keys struct {
	all []key
}

type key struct {
	id     [idSize]byte
	secret []byte
	aead   cipher.AEAD
}

// New makes a fresh key in the form that Parse reads.
func New() string {
	secret := make([]byte, keySize)
	rand.Read(secret) // never fails: the program ends if the system has no randomness
	return base64.StdEncoding.EncodeToString(secret)
}

// Parse reads one or more base64 keys of 32 bytes, separated by commas or white
// space. The first seals, all open. Errors name a key by its place, never by its
// content.
func Parse(text string) (Keys, error) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(fields) == 0 {
		return Keys{}, errors.New("seal: no key given")
	}
	var keys Keys
	for i, f := range fields {
		secret, err := decode(f)
		if err != nil {
			return Keys{}, fmt.Errorf("seal: key %d of %d isn't base64", i+1, len(fields))
		}
		if len(secret) != keySize {
			return Keys{}, fmt.Errorf("seal: key %d of %d has %d bytes, it needs %d", i+1, len(fields), len(secret), keySize)
		}
		for j, k := range keys.all {
			if bytes.Equal(k.secret, secret) {
				return Keys{}, fmt.Errorf("seal: keys %d and %d are the same", j+1, i+1)
			}
		}
		k, err := newKey(secret)
		if err != nil {
			return Keys{}, fmt.Errorf("seal: key %d of %d: %w", i+1, len(fields), err)
		}
		keys.all = append(keys.all, k)
	}
	return keys, nil
}

// decode takes both alphabets, with or without padding: keys come from many
// tools (openssl, head | base64, a secret manager).
func decode(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	return base64.RawStdEncoding.DecodeString(s)
}

func newKey(secret []byte) (key, error) {
	k := key{secret: secret}
	sum := sha256.Sum256(secret)
	copy(k.id[:], sum[:])
	sealing, err := k.derive("seal")
	if err != nil {
		return key{}, err
	}
	block, err := aes.NewCipher(sealing)
	if err != nil {
		return key{}, err
	}
	// Random nonces: safe for 2³² values per key, far more than a shop's events.
	k.aead, err = cipher.NewGCMWithRandomNonce(block)
	return k, err
}

func (k key) derive(label string) ([]byte, error) {
	return hkdf.Key(sha256.New, k.secret, nil, "counterfoil "+label, keySize)
}

// Seal seals plain with the first key. The additional data isn't stored; the
// same must be given to Open, so that a sealed value can't be moved to another
// row or column.
func (k Keys) Seal(plain, additional []byte) []byte {
	first := &k.all[0]
	out := make([]byte, headerSize, Overhead+len(plain))
	out[0] = version
	copy(out[1:], first.id[:])
	return first.aead.Seal(out, nil, plain, additional)
}

// Open opens what Seal made with any of the keys. It fails with ErrUnknownKey or
// ErrAltered.
func (k Keys) Open(sealed, additional []byte) ([]byte, error) {
	if len(sealed) < Overhead || sealed[0] != version {
		return nil, ErrAltered
	}
	id := sealed[1:headerSize]
	known := false
	for i := range k.all {
		if !bytes.Equal(k.all[i].id[:], id) {
			continue
		}
		known = true
		plain := make([]byte, 0, len(sealed)-Overhead)
		// The header needs no authentication of its own: another id is another
		// key, and that one doesn't open it.
		plain, err := k.all[i].aead.Open(plain, nil, sealed[headerSize:], additional)
		if err == nil {
			return plain, nil
		}
	}
	if !known {
		return nil, fmt.Errorf("%w (%x)", ErrUnknownKey, id)
	}
	return nil, ErrAltered
}

// Fingerprint names the first key without giving anything of it away: the hex
// form of its id.
func (k Keys) Fingerprint() string { return hex.EncodeToString(k.all[0].id[:]) }

// Fingerprints names all keys, the first one first.
func (k Keys) Fingerprints() []string {
	names := make([]string, len(k.all))
	for i := range k.all {
		names[i] = hex.EncodeToString(k.all[i].id[:])
	}
	return names
}

// FingerprintOf tells which key sealed a value, without opening it; "" if it
// isn't a sealed value. What differs from Fingerprint is due to be sealed again.
func FingerprintOf(sealed []byte) string {
	if len(sealed) < Overhead || sealed[0] != version {
		return ""
	}
	return hex.EncodeToString(sealed[1:headerSize])
}

// Derive makes a 32-byte key for one purpose out of the first key. The same
// label always gives the same key; different labels give unrelated ones.
func (k Keys) Derive(label string) []byte { return k.DeriveAll(label)[0] }

// DeriveAll makes the key of one purpose out of every key, the first one first:
// to check what was signed before a key was replaced.
func (k Keys) DeriveAll(label string) [][]byte {
	derived := make([][]byte, len(k.all))
	for i := range k.all {
		// The only failure of HKDF is a length beyond 255 blocks.
		derived[i], _ = k.all[i].derive(label)
	}
	return derived
}
