// Package hooks is the door for platforms: it reads the exact bytes of a
// notification within bounds, hands them to the inbox, and answers in one short line.
package hooks

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/sync/semaphore"

	"counterfoil/models"
	"counterfoil/models/inbox"
	"counterfoil/models/platform"
	"counterfoil/web"
)

// A Receiver keeps notifications.
type Receiver interface {
	// Known fails with not_found for a slug that no connection has.
	Known(ctx context.Context, slug string) error
	Receive(ctx context.Context, slug string, r platform.Request, requestID string) (inbox.Result, error)
	RefuseTooLarge(ctx context.Context, slug string, r platform.Request, requestID string, size int64)
}

// Limits of what the door takes in.
type Limits struct {
	Body   int64 // largest body
	Memory int64 // of all bodies that are being read or wait for their commit
}

const (
	// roomTime is how long a request waits for memory, and readTime how long its
	// sender may take for the whole body.
	roomTime = 3 * time.Second
	readTime = 10 * time.Second
	// keepTime is how long a whole notification waits for its answer.
	keepTime = 3500 * time.Millisecond
	step     = 64 << 10
	// retryAfter, in seconds, is sent with every 503: our faults are short.
	retryAfter = "5"
)

// Hooks answers POST /hooks/{slug}.
type Hooks struct {
	inbox  Receiver
	limits Limits
	room   *semaphore.Weighted
}

// New makes the door.
func New(r Receiver, l Limits) *Hooks {
	return &Hooks{inbox: r, limits: l, room: semaphore.NewWeighted(max(l.Memory, l.Body+1))}
}

// Mount routes the door. The address works with and without a slash at its end: a
// redirect would count as a loss.
func (h *Hooks) Mount(r gin.IRouter) {
	r.POST("/hooks/:slug", h.receive)
	r.POST("/hooks/:slug/", h.receive)
}

func (h *Hooks) receive(c *gin.Context) {
	slug, id := c.Param("slug"), web.RequestID(c)
	// Strangers are turned away before a byte of theirs is kept in memory.
	if err := h.inbox.Known(c.Request.Context(), slug); err != nil {
		h.refuse(c, err)
		return
	}
	body, held, err := h.read(c)
	defer func() { h.room.Release(held) }()
	request := platform.Request{Header: c.Request.Header, Body: body}
	switch {
	case errors.Is(err, errTooLarge):
		// A little more is read, so that a sender who is still writing sees the answer.
		_, _ = io.CopyN(io.Discard, c.Request.Body, 1<<20)
		h.inbox.RefuseTooLarge(c.Request.Context(), slug, request, id, max(c.Request.ContentLength, h.limits.Body+1))
		answer(c, http.StatusRequestEntityTooLarge, "refused")
		return
	case err != nil:
		again(c)
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), keepTime)
	defer cancel()
	result, err := h.inbox.Receive(ctx, slug, request, id)
	if err != nil {
		h.refuse(c, err)
		return
	}
	answer(c, http.StatusOK, string(result))
}

func (h *Hooks) refuse(c *gin.Context, err error) {
	if _, ok := errors.AsType[*platform.Refusal](err); ok {
		answer(c, http.StatusUnauthorized, "refused")
		return
	}
	if models.CodeOf(err) == models.NotFound {
		answer(c, http.StatusNotFound, "refused")
		return
	}
	// Whatever else went wrong is our fault: the sender should try again.
	again(c)
}

func answer(c *gin.Context, status int, result string) {
	if status != http.StatusOK {
		// What is left of the body isn't read, so the connection can't be used again.
		c.Header("Connection", "close")
	}
	c.JSON(status, gin.H{"result": result, "request": web.RequestID(c)})
}

func again(c *gin.Context) {
	c.Header("Retry-After", retryAfter)
	answer(c, http.StatusServiceUnavailable, "refused")
}

var errTooLarge = errors.New("hooks: body too large")

// read takes the exact bytes. The memory of all bodies together is bounded, and taken
// as bytes arrive: whoever only announces a large body holds nothing. Whoever finds no
// room waits for it a little.
func (h *Hooks) read(c *gin.Context) (body []byte, held int64, err error) {
	announced := c.Request.ContentLength
	if announced > h.limits.Body {
		return nil, 0, errTooLarge
	}
	if err := http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(readTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, 0, err
	}
	for {
		if len(body) == cap(body) {
			size := min(max(2*int64(cap(body)), step), h.limits.Body+1)
			if announced >= 0 {
				size = min(size, announced+1) // one more, to see the end
			}
			if err := h.take(c.Request.Context(), size-held); err != nil {
				return nil, held, err
			}
			held = size
			body = append(make([]byte, 0, size), body...)
		}
		n, err := c.Request.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > h.limits.Body:
			return nil, held, errTooLarge
		case errors.Is(err, io.EOF):
			return body, held, nil
		case err != nil:
			// Cut off on its way: what came is too short for its signature, and the
			// sender is still there to be told to try again.
			return nil, held, err
		}
	}
}

func (h *Hooks) take(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, roomTime)
	defer cancel()
	return h.room.Acquire(ctx, n)
}
