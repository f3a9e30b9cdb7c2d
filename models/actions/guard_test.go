package actions

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nameServer answers each question for an address with the next of some answers, and
// says of other kinds that there is nothing.
func nameServer(t *testing.T, answers ...[4]byte) *net.Resolver {
	t.Helper()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		buf := make([]byte, 512)
		for asked := 0; ; {
			n, from, err := l.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12 // behind the header: the name, label by label, then its kind and class
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			end += 5
			if end > n {
				continue
			}
			reply := append([]byte{buf[0], buf[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, buf[12:end]...)
			if buf[end-3] == 1 {
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				reply = append(reply, answers[min(asked, len(answers)-1)][:]...)
				asked++
			}
			_, _ = l.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", l.LocalAddr().String())
	}}
}

// A name that is looked up again may lead elsewhere: what is dialled is judged, each
// time it is dialled.
func TestANameThatMovesInside(t *testing.T) {
	t.Parallel()
	stopped := errors.New("far enough: this test calls nobody outside")
	d := dialer(true)
	d.Resolver = nameServer(t, [4]byte{93, 184, 215, 14}, [4]byte{127, 0, 0, 1}, [4]byte{169, 254, 169, 254}, [4]byte{10, 0, 0, 8})
	guarded := d.Control
	d.Control = func(network, address string, c syscall.RawConn) error {
		if err := guarded(network, address, c); err != nil {
			return err
		}
		return stopped
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i, want := range []error{stopped, errInner, errInner, errInner} {
		if _, err := d.DialContext(ctx, "tcp", "warehouse.example.com:443"); !errors.Is(err, want) {
			t.Errorf("look %d: %v, want %v", i, err, want)
		}
	}
}

// Whatever way an inner address is written in, nobody is called there.
func TestOtherSpellingsOfInnerAddresses(t *testing.T) {
	t.Parallel()
	b := newBox(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"0177.0.0.1", "017700000001", "0x7f.0.0.1", "0x7f000001", "127.0.1", "0", "[::]", "[::1]", "[::ffff:7f00:1]",
		"[0:0:0:0:0:ffff:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[::127.0.0.1]", "LOCALHOST", "localhost."} {
		a := newSender().post(t.Context(), b.parcel(func(p *parcel) { p.url, p.hosts = "http://"+host+":"+port+"/", nil }))
		if a.done || a.reached {
			t.Errorf("%s was called: %+v", host, a)
		}
	}
	if n := b.calls.Load(); n != 0 {
		t.Errorf("%d calls came in", n)
	}
}

// A proxy would dial in our place, where nothing guards it.
func TestNoProxyIsUsed(t *testing.T) {
	t.Parallel()
	s := newSender()
	for _, c := range []*http.Client{s.strict, s.inner, s.strictOnce, s.innerOnce} {
		if c.Transport.(*http.Transport).Proxy != nil {
			t.Error("a client asks the environment for a proxy")
		}
	}
}
