package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/cli/clitest"
)

func TestHealthSaysWhatTheProcessSays(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"status":"ok"}`) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":"not ready","database":"failed"}`)
	})
	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	defer plain.Close()
	defer secure.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(plain.URL, "http://"), ":")
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		code int
		says string
	}{
		{name: "it lives", env: map[string]string{"HTTP_ADDR": "0.0.0.0:" + port}, args: []string{"--live"}, says: `"ok"`},
		{name: "it lives, behind an address without host", args: []string{"--live", "--http-addr", ":" + port}, says: `"ok"`},
		{name: "it is not ready", env: map[string]string{"HTTP_ADDR": "127.0.0.1:" + port}, code: 1, says: `"database":"failed"`},
		{name: "it lives, behind TLS", env: map[string]string{"HTTP_ADDR": strings.TrimPrefix(secure.URL, "https://"), "TLS_CERT_FILE": "tls.crt"}, args: []string{"--live"}, says: `"ok"`},
		{name: "nobody is there", env: map[string]string{"HTTP_ADDR": "127.0.0.1:1"}, code: 1, says: "cannot connect"},
		{name: "the address is none", env: map[string]string{"HTTP_ADDR": "here"}, code: 2, says: `"here" is not host:port`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Run(t, clitest.Env{Vars: c.env}, append([]string{"health"}, c.args...)...)
			if got.Code != c.code || !strings.Contains(got.Out+got.ErrOut, c.says) {
				t.Errorf("exit %d: %q %q; want %d and %s", got.Code, got.Out, got.ErrOut, c.code, c.says)
			}
		})
	}
}
