// Package config has the settings of the program. Each is a flag and an environment
// variable; a usable default stands beside all of them.
package config

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Database says where everything is kept.
type Database struct {
	URL  string `name:"database-url" env:"DATABASE_URL" placeholder:"URL" help:"Postgres server, reached directly or through a session pool. Without it a private Postgres runs under the data folder."`
	Data string `name:"data" env:"COUNTERFOIL_DATA" default:"./data" placeholder:"FOLDER" help:"Folder for the private Postgres and the key file."`
	Key  string `name:"key" env:"COUNTERFOIL_KEY" placeholder:"KEYS" help:"Keys that seal secrets and payloads: base64 of 32 bytes, several separated by commas; the first seals, all open. Without it a key file is kept in the data folder."`
}

// Serve has the settings of the running console.
type Serve struct {
	Addr       string   `name:"addr" env:"COUNTERFOIL_ADDR" default:"127.0.0.1:8080" help:"Address to listen on."`
	Proxies    []string `name:"trusted-proxy" env:"COUNTERFOIL_TRUSTED_PROXIES" placeholder:"NETWORK" help:"Proxies whose forwarding headers are believed, for instance 10.0.0.0/8."`
	Zone       string   `name:"zone" env:"COUNTERFOIL_ZONE" default:"Asia/Hong_Kong" help:"Time zone of the pages."`
	Public     string   `name:"public-url" env:"COUNTERFOIL_PUBLIC_URL" placeholder:"URL" help:"Address under which platforms reach this console, for instance https://console.example.com. Without it the one that the browser used is registered."`
	BodyLimit  int64    `name:"body-limit" env:"COUNTERFOIL_BODY_LIMIT" default:"8388608" help:"Largest notification in bytes."`
	BodyMemory int64    `name:"body-memory" env:"COUNTERFOIL_BODY_MEMORY" default:"33554432" help:"Bytes of all notifications in memory at once."`
}

// Location is the time zone of the pages.
func (s Serve) Location() (*time.Location, error) {
	z, err := time.LoadLocation(s.Zone)
	if err != nil {
		return nil, fmt.Errorf("--zone %q is no time zone known here: give a name like Asia/Taipei", s.Zone)
	}
	return z, nil
}

// PublicURL is the console's public address without a slash at its end; empty where
// none is set.
func (s Serve) PublicURL() (string, error) {
	if s.Public == "" {
		return "", nil
	}
	u, err := url.Parse(s.Public)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("--public-url %q must be an http or https address without user, query or fragment, for instance https://console.example.com", s.Public)
	}
	return strings.TrimRight(s.Public, "/"), nil
}

// Loopback tells whether an address is reached from this machine only.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
