package actions

import (
	"errors"
	"net/netip"
	"syscall"
)

// errInner says that an address isn't one of the public internet.
var errInner = errors.New("the address isn't public")

// guard refuses connections to inner networks. It is asked when dialling, after the
// name was looked up, so a name that changes its address between two looks is no way in.
func guard(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !public(at.Addr()) {
		return errInner
	}
	return nil
}

// notPublic are the networks that the registries keep for other ends than the public
// internet: this host, private and shared ones, link-local, documentation, tests,
// multicast, and those that hide an IPv4 address in an IPv6 one.
var notPublic = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

// worldwide is where public IPv6 addresses are; loopback, private, link-local,
// multicast, mapped and translated (NAT64) ones lie outside.
var worldwide = netip.MustParsePrefix("2000::/3")

func prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, 20)
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func public(a netip.Addr) bool {
	a = a.WithZone("")
	if !a.IsValid() || a.Is6() && !worldwide.Contains(a) {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
