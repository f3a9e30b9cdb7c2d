// Package api answers programs: the JSON of orders, events and connections. It only
// translates; what a caller may not see is not found.
package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
)

// A Book answers questions about what is recorded.
type Book interface {
	Orders(ctx context.Context, q models.OrderQuery) (models.Page[models.OrderRow], error)
	OrderFile(ctx context.Context, id int64) (models.OrderFile, error)
	Events(ctx context.Context, q models.EventQuery) (models.Page[models.Event], error)
	EventFile(ctx context.Context, id int64) (models.EventFile, error)
	Connections(ctx context.Context, shops []int64) ([]models.ConnectionFile, error)
}

// A Resyncer reads the official objects of an order again and applies them. Its
// result is one of same, moved, exception, unavailable.
type Resyncer interface {
	// Order resyncs an order that is known.
	Order(ctx context.Context, actor models.Actor, orderID int64) (result string, err error)
	// Ref resyncs whatever a connection's platform has under a reference; orderID is 0
	// where that led to no order.
	Ref(ctx context.Context, actor models.Actor, slug, ref string) (result string, orderID int64, err error)
}

// An API answers /api/v1.
type API struct {
	Book     Book
	Resync   Resyncer
	Holds    Holder
	Actions  Actions
	Requests Requests
	Cases    Cases
	Reread   Rereader
	Compares Comparer
}

// A Comparer compares connections with their platforms.
type Comparer interface {
	File(ctx context.Context, actor models.Actor, slug string) (models.SweepFile, error)
	Ask(ctx context.Context, actor models.Actor, slug string) ([]int64, error)
}

// maxText is the longest reference or search that is looked for.
const maxText = 300

// A page of a list.
const (
	defaultLimit = 50
	maxLimit     = 200
)

// list is how every list is answered.
type list[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// input reads parameters and collects what is wrong with them.
type input struct {
	query url.Values
	bad   map[string]string
}

// newInput refuses what would otherwise be left out without a word, and with it the
// filter that the caller meant.
func newInput(c *gin.Context) *input {
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	in := &input{query, map[string]string{}}
	if err != nil {
		in.refuse("query", "error.query")
	}
	for name, values := range query {
		if len(values) > 1 {
			in.refuse(name, "error.once")
		}
	}
	return in
}

func (in *input) refuse(field, key string) { in.bad[field] = key }

// err is nil where nothing was wrong.
func (in *input) err() error {
	if len(in.bad) == 0 {
		return nil
	}
	return &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: in.bad}
}

func (in *input) text(name string) string {
	s := in.query.Get(name)
	if !storable(s) {
		in.refuse(name, "error.text")
		return ""
	}
	return s
}

// storable tells whether a database could hold the text at all.
func storable(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

func (in *input) limit() int {
	s := in.query.Get("limit")
	if s == "" {
		return defaultLimit
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxLimit {
		in.refuse("limit", "error.limit")
	}
	return n
}

func (in *input) flag(name string) bool {
	s := in.query.Get(name)
	if s == "" {
		return false
	}
	on, err := strconv.ParseBool(s)
	if err != nil {
		in.refuse(name, "error.flag")
	}
	return on
}

func (in *input) id(name string) int64 {
	s := in.query.Get(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		in.refuse(name, "error.id")
	}
	return n
}

// word reads one of a list of words.
func word[T ~string](in *input, name string, known []T) T {
	w := T(in.query.Get(name))
	if w != "" && !slices.Contains(known, w) {
		in.refuse(name, "error.word")
		return ""
	}
	return w
}

// pathID reads the id in the path. One that can't be an id is one that nobody has.
func pathID(c *gin.Context, key string) (int64, error) {
	n, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil || n < 1 {
		return 0, models.Fail(models.NotFound, key)
	}
	return n, nil
}

func made(c *gin.Context, body any) error {
	c.JSON(http.StatusCreated, body)
	return nil
}

func ok(c *gin.Context, body any) error {
	c.JSON(http.StatusOK, body)
	return nil
}
