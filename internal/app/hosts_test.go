package app_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/app"
)

// With authentication the local address of a request decides. Requests to a published port of a
// container arrive at an address such as 172.17.0.2.
const (
	onLoopback  = "127.0.0.1"
	onContainer = "172.17.0.2"
)

func TestRequestsOfARebindingPageAreRefused(t *testing.T) {
	t.Parallel()
	tokens := app.Config{AuthTokensFile: "tokens.yaml"}
	open := app.Config{PublicURL: "https://Carillon.example./", HTTPAddr: "box.internal:8080", AllowedHosts: "worker-1, Ops.Example.com,*.svc.example"}
	off := open
	off.Auth = "off"
	public := tokens
	public.PublicURL = "https://carillon.example"
	for _, c := range []struct {
		name  string
		cfg   app.Config
		local string
		host  string
		want  int
	}{
		{"a foreign name behind a published port, AUTH=off", off, onContainer, "evil.example", 421},
		{"a foreign name with the port, AUTH=off", off, onContainer, "evil.example:8080", 421},
		{"a foreign name on loopback, AUTH=off", off, onLoopback, "evil.example:8080", 421},
		{"a foreign name without AUTH settings", open, onContainer, "evil.example", 421},
		{"a name that begins with localhost", off, onContainer, "localhost.evil.example", 421},
		{"a name that ends with localhost without a dot", off, onContainer, "evil-localhost", 421},
		{"a name that ends like an allowed one", off, onContainer, "evil-carillon.example", 421},
		{"a name below an allowed one that has no wildcard", off, onContainer, "evil.ops.example.com", 421},
		{"the name above a wildcard", off, onContainer, "svc.example", 421},
		{"an octal address, which is not parsed as an address", off, onContainer, "0177.0.0.1", 421},
		{"an address with a name appended", off, onContainer, "127.0.0.1.evil.example", 421},

		{"an IPv4 address", off, onContainer, "172.17.0.2:8080", 200},
		{"an IPv6 address", off, onContainer, "[2001:db8::1]:8080", 200},
		{"an IPv6 address without a port", off, onContainer, "[::1]", 200},
		{"localhost", off, onContainer, "localhost:8080", 200},
		{"localhost in capitals and with a final dot", off, onContainer, "LOCALHOST.:8080", 200},
		{"a name below localhost", off, onContainer, "carillon.localhost", 200},
		{"the host of PUBLIC_URL", off, onContainer, "carillon.example", 200},
		{"the host of HTTP_ADDR", off, onContainer, "box.internal:8080", 200},
		{"a name in ALLOWED_HOSTS", off, onContainer, "worker-1:8080", 200},
		{"a name in ALLOWED_HOSTS in other letters", off, onContainer, "OPS.example.COM", 200},
		{"a name below a wildcard of ALLOWED_HOSTS", off, onContainer, "a.b.svc.example", 200},

		{"a foreign name, authentication on", tokens, onContainer, "evil.example", 200},
		{"a foreign name on loopback, authentication on", tokens, onLoopback, "evil.example", 421},
		{"another loopback address, authentication on", tokens, "127.0.0.53", "evil.example", 421},
		{"the host of PUBLIC_URL on loopback, authentication on", public, onLoopback, "carillon.example", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				reached := false
				h := app.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }), c.cfg)
				ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(c.local), Port: 8080})
				req := httptest.NewRequestWithContext(ctx, method, "/v1/schedules", nil)
				req.Host = c.host
				answer := httptest.NewRecorder()
				h.ServeHTTP(answer, req)
				if answer.Code != c.want || reached != (c.want == 200) {
					t.Errorf("%s is answered %d, reached the service: %v; want %d", method, answer.Code, reached, c.want)
				}
				if c.want == 421 && !strings.Contains(answer.Body.String(), "ALLOWED_HOSTS") {
					t.Errorf("the answer names no way out: %s", answer.Body)
				}
			}
		})
	}
}

func TestAllowedHostsAreHostNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"nothing", "", ""},
		{"names", "carillon.example.com, worker-1 ,*.example.com,a_b", ""},
		{"empty entries", ",worker-1,,", ""},
		{"everything", "*", `ALLOWED_HOSTS: "*" is not a host name`},
		{"a star inside", "a.*.example.com", `"a.*.example.com" is not a host name`},
		{"a star before letters", "*example.com", `"*example.com" is not a host name`},
		{"a port", "carillon.example.com:8080", "without scheme, port or path"},
		{"a URL", "http://carillon.example.com", "without scheme, port or path"},
		{"a path", "carillon.example.com/ui", "without scheme, port or path"},
		{"two names without a comma", "a b", `"a b" is not a host name`},
		{"an IP address", "worker-1,10.0.0.1", `ALLOWED_HOSTS: "10.0.0.1" is an IP address`},
		{"an empty label", "a..b", `"a..b" is not a host name`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, "--allowed-hosts", c.value)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}
