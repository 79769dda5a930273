package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// receiver is where the product sends its alerts: one target that takes them,
// and one that says it is gone until it is mended.
type receiver struct {
	server *httptest.Server
	secret string

	mu     sync.Mutex
	mended bool
}

func receive() (*receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	r := &receiver{secret: "whsec_" + base64.StdEncoding.EncodeToString(secret)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ops", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /old", func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.mended {
			w.WriteHeader(http.StatusGone)
		}
	})
	r.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}}
	r.server.Start()
	return r, nil
}

func (r *receiver) env() []string {
	return []string{"ALERT_WEBHOOK_URL=" + r.server.URL + "/ops," + r.server.URL + "/old", "ALERT_WEBHOOK_SECRET=" + r.secret}
}

// mend lets the second target take messages.
func (r *receiver) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mended = true
}

func (r *receiver) close() { r.server.Close() }

// alarm waits until one alert is open and one has recovered.
func (p *product) alarm(ctx context.Context) error {
	deadline := time.After(startWithin)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var open, closed struct {
			Alerts []struct {
				ID       string `json:"alert_id"`
				Schedule string `json:"schedule_id"`
			}
		}
		if err := p.api(ctx, "GET", "/v1/alerts?state=open", nil, &open); err != nil {
			return err
		}
		if err := p.api(ctx, "GET", "/v1/alerts?state=closed", nil, &closed); err != nil {
			return err
		}
		for _, a := range open.Alerts {
			if a.Schedule == "ledger.close" && len(closed.Alerts) > 0 {
				p.alert = a.ID
				return nil
			}
		}
		select {
		case <-deadline:
			return fmt.Errorf("open are %v, closed %v, and not one of each", open, closed)
		case <-tick.C:
		}
	}
}

var made = regexp.MustCompile(`(?s)\n  (\S+)\n.*tokens:\n(.*)`)

// lock has the product want tokens, which its own command makes: of an operator
// who may change schedules too, and which calls of the API are made with, and of
// a viewer.
func (p *product) lock(ctx context.Context) (operator, viewer string, err error) {
	text := "tokens:\n"
	var tokens []string
	for _, who := range [][]string{
		{"--subject", "olga", "--role", "operator", "--role", "compiler"},
		{"--subject", "vera", "--role", "viewer"},
	} {
		out, err := exec.CommandContext(ctx, p.binary, append([]string{"token", "new"}, who...)...).Output()
		found := made.FindSubmatch(out)
		if err != nil || found == nil {
			return "", "", errors.Join(err, fmt.Errorf("carillon token new printed %q", out))
		}
		tokens = append(tokens, string(found[1]))
		text += string(found[2])
	}
	file := filepath.Join(p.dir, "tokens.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", "", err
	}
	p.end()
	p.token, p.args = tokens[0], append(p.args, "--auth-tokens-file", file)
	return tokens[0], tokens[1], p.run(ctx, p.addr)
}
