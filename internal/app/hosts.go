package app

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// hosts decides which Host headers HTTP_ADDR answers, against DNS rebinding: a page at evil.example can
// make its name resolve to this server. The browser then treats page and server as the same origin, so
// the page could make calls and read answers. Only the Host header differs.
type hosts struct {
	everywhere bool // check on every address; otherwise on loopback only
	names      map[string]bool
	suffixes   []string // ".example.com" for *.example.com
}

// hosts are checked on every address if authentication is off. With authentication the check covers
// only loopback, because a page has no token.
func (c *Config) hosts() hosts {
	h := hosts{everywhere: !c.authOn(), names: map[string]bool{"localhost": true}, suffixes: []string{".localhost"}}
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" {
		h.names[plainHost(u.Host)] = true
	}
	if name := plainHost(c.HTTPAddr); name != "" { // probes on this machine use it
		h.names[name] = true
	}
	for _, entry := range c.allowedHosts() {
		if suffix, isWildcard := strings.CutPrefix(entry, "*"); isWildcard {
			h.suffixes = append(h.suffixes, suffix)
		} else {
			h.names[entry] = true
		}
	}
	return h
}

func (c *Config) allowedHosts() []string {
	var entries []string
	for entry := range strings.SplitSeq(c.AllowedHosts, ",") {
		if entry = strings.ToLower(strings.TrimSpace(entry)); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// checkAllowedHosts refuses entries that could never match, and "*".
func (c *Config) checkAllowedHosts() error {
	for _, entry := range c.allowedHosts() {
		name := strings.TrimPrefix(entry, "*.")
		if !validHost(name) {
			return fmt.Errorf("ALLOWED_HOSTS: %q is not a host name; write host names such as carillon.example.com or *.example.com, without scheme, port or path, separated by commas", entry)
		}
		if _, err := netip.ParseAddr(name); err == nil {
			return fmt.Errorf("ALLOWED_HOSTS: %q is an IP address; these are always allowed, so remove it", entry)
		}
	}
	return nil
}

// validHost reports whether name can be a host name in lower case.
func validHost(name string) bool {
	const maxName, maxLabel = 253, 63
	if len(name) > maxName {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// plainHost returns a host in lower case without port, brackets and final dot.
func plainHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// allow reports whether a request may be answered. IP addresses are allowed because rebinding needs a
// name, and an empty Host because only HTTP/1.0 has it, which browsers do not use.
func (h hosts) allow(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !h.everywhere && (!ok || !local.IP.IsLoopback()) {
		return true
	}
	host := plainHost(r.Host)
	if _, err := netip.ParseAddr(host); err == nil || host == "" || h.names[host] {
		return true
	}
	for _, suffix := range h.suffixes {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

// refusal is the message for a request whose Host is not allowed.
func (h hosts) refusal(r *http.Request) string {
	where := "on loopback"
	if h.everywhere {
		where = "while authentication is off"
	}
	return fmt.Sprintf("host %.100q is not allowed: %s only IP addresses, localhost, the host of PUBLIC_URL and the names in ALLOWED_HOSTS are", r.Host, where)
}
