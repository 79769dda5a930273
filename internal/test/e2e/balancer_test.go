package e2e_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// newBalancer is a load balancer of several processes: an address that outlives each of
// them. It tries one after the other until one answers.
func newBalancer(t testing.TB, addresses []string) *httptest.Server {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		for _, address := range addresses {
			if forward(w, r, client, address, body) {
				return
			}
		}
		http.Error(w, "no process is there", http.StatusBadGateway)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		client.CloseIdleConnections()
	})
	return server
}

func forward(w http.ResponseWriter, r *http.Request, client *http.Client, address string, body []byte) (answered bool) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+address+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header = r.Header.Clone()
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the one who asked may be gone
	return true
}

// newServer is a server of one handler that ends with the test.
func newServer(t testing.TB, serve http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}
