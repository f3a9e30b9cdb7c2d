package models

import (
	"errors"
	"fmt"
)

// A Code says what kind of failure an Error is. Codes are few and generic on
// purpose: they map well to HTTP, and only the edge does that mapping.
type Code string

const (
	Invalid         Code = "invalid"         // the input can't be used; Fields say where
	Unauthenticated Code = "unauthenticated" // nobody is signed in, or the token is unknown
	Forbidden       Code = "forbidden"       // allowed to see, not to do
	NotFound        Code = "not_found"       // absent, or not to be seen by this person
	Conflict        Code = "conflict"        // somebody else was first, or the data moved
	Unavailable     Code = "unavailable"     // a platform or our database can't be asked now
	Internal        Code = "internal"        // everything else; the cause is logged, never shown
)

// An Error is a failure that staff or a caller can act on.
type Error struct {
	Code   Code
	Key    string            // catalogue key of the sentence shown to staff
	Args   []any             // values for that sentence
	Fields map[string]string // form or JSON field name → catalogue key
	Err    error             // cause: logged, never shown
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Key, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Key)
}

func (e *Error) Unwrap() error { return e.Err }

// Fail makes an Error that shows the sentence under key.
func Fail(code Code, key string, args ...any) *Error {
	return &Error{Code: code, Key: key, Args: args}
}

// Because adds a cause for the log.
func (e *Error) Because(err error) *Error {
	c := *e
	c.Err = err
	return &c
}

// CodeOf looks through wrapping for the code of err; errors without one are internal.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}
