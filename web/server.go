package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second // a webhook of 8 MiB over a slow line
	writeTimeout      = 60 * time.Second // a resync asks a platform before it answers
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	stopTimeout       = 10 * time.Second
)

// NewServer makes the HTTP server with its limits. The server's own log is dropped:
// it writes client addresses, and what matters comes back from Serve.
func NewServer(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: h,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// Serve answers requests on ln until ctx ends; then it takes no new ones, gives those
// under way ten seconds and returns.
func Serve(ctx context.Context, s *http.Server, ln net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("web: serve: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.Shutdown(stopping); err != nil {
		return errors.Join(fmt.Errorf("web: stop: %w", err), s.Close())
	}
	return nil
}
