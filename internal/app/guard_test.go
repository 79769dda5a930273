package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/app"
)

// serve runs the HTTP server over pipes in a synctest bubble.
func serve(t *testing.T, h http.HandlerFunc) *pipes {
	t.Helper()
	lis := newPipes()
	server := app.NewHTTPServer(app.Guard(h, app.Config{}))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(lis) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = lis.Close()
		<-ended
	})
	return lis
}

// endsAfter is the time until the server closes a connection.
func endsAfter(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	_, _ = io.Copy(io.Discard, c)
	return time.Since(began)
}

func TestASlowClientIsDisconnected(t *testing.T) {
	t.Parallel()
	const post = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n"
	for _, c := range []struct {
		name   string
		sends  string
		within time.Duration
	}{
		{"it says nothing", "", 5 * time.Second},
		{"it never ends its header", "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n", 5 * time.Second},
		{"it never ends its body", post + "half", 31 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodyErr error
				lis := serve(t, func(_ http.ResponseWriter, r *http.Request) { _, bodyErr = io.ReadAll(r.Body) })
				client := lis.dial()
				defer client.Close()
				go func() { _, _ = io.WriteString(client, c.sends) }()
				if took := endsAfter(t, client); took > c.within+time.Second {
					t.Errorf("given up after %s", took)
				}
				if strings.HasPrefix(c.sends, "POST") && bodyErr == nil {
					t.Error("the body was read without an error")
				}
			})
		})
	}
}

func TestAClientThatSendsItsHeaderSlowlyIsDisconnected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lis := serve(t, func(http.ResponseWriter, *http.Request) {})
		client := lis.dial()
		defer client.Close()
		dripped := make(chan struct{})
		go func() {
			defer close(dripped)
			for _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n"); err == nil; _, err = io.WriteString(client, "X-A: b\r\n") {
				time.Sleep(time.Second)
			}
		}()
		if took := endsAfter(t, client); took > 6*time.Second {
			t.Errorf("given up after %s", took)
		}
		<-dripped
	})
}

func TestAnAnswerThatNobodyReadsIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gaveUp := make(chan time.Duration, 1)
		lis := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			began := time.Now()
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, 1<<16))
			}
			gaveUp <- time.Since(began)
		})
		client := lis.dial()
		defer client.Close()
		_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		if took := <-gaveUp; took > 31*time.Second {
			t.Errorf("given up after %s", took)
		}
	})
}

func TestAnAnswerThatStreamsForHoursIsNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lis := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			for i := range 30 { // the last line comes after an hour and a half
				select {
				case <-r.Context().Done():
					return
				case <-time.After(3 * time.Minute):
				}
				_, _ = fmt.Fprintf(w, "line %d\n", i)
				w.(http.Flusher).Flush()
			}
			time.Sleep(time.Hour) // and its end comes without a word
		})
		client := lis.dial()
		defer client.Close()
		_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\nok")
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if lines := strings.Count(string(text), "\n"); err != nil || lines != 30 {
			t.Errorf("%d lines came, then %v", lines, err)
		}
	})
}

func TestAnOversizedHeaderIsRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.Config = app.NewHTTPServer(app.Guard(http.NotFoundHandler(), app.Config{}))
	server.Start()
	defer server.Close()
	for size, want := range map[int]int{8 << 10: http.StatusNotFound, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		req.Header.Set("X-Large", strings.Repeat("x", size))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("a header of %d bytes: %d, want %d", size, resp.StatusCode, want)
		}
	}
}

func TestPagesOfOtherSitesMakeNoCalls(t *testing.T) {
	t.Parallel()
	calls := 0
	server := httptest.NewServer(app.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }), app.Config{PublicURL: "https://carillon.example"}))
	defer server.Close()
	own := server.URL
	port := own[strings.LastIndex(own, ":"):]
	for _, c := range []struct {
		name   string
		method string
		host   string
		header map[string]string
		want   int
	}{
		{"a program", "POST", "", nil, 200},
		{"a page of this site", "POST", "", map[string]string{"Origin": own, "Sec-Fetch-Site": "same-origin"}, 200},
		{"an old browser on a page of this site", "POST", "", map[string]string{"Origin": own}, 200},
		{"a page at PUBLIC_URL, through a proxy", "POST", "", map[string]string{"Origin": "https://carillon.example", "Sec-Fetch-Site": "cross-site"}, 200},
		{"a page of another site", "POST", "", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403},
		{"a page of another port of this machine", "POST", "", map[string]string{"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, 403},
		{"an old browser on a page of another site", "PUT", "", map[string]string{"Origin": "https://evil.example"}, 403},
		{"a page without an origin", "DELETE", "", map[string]string{"Origin": "null"}, 403},
		{"a page of another site that only reads", "GET", "", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 200},
		{"a page whose name was led here", "POST", "evil.example" + port, map[string]string{"Origin": "http://evil.example" + port, "Sec-Fetch-Site": "same-origin"}, 421},
		{"a page whose name was led here and only reads", "GET", "evil.example" + port, nil, 421},
		{"a name that looks like ours", "GET", "localhost.evil.example", nil, 421},
		{"localhost", "GET", "localhost" + port, nil, 200},
		{"a name below localhost", "GET", "carillon.localhost" + port, nil, 200},
		{"loopback in IPv6", "GET", "[::1]" + port, nil, 200},
		{"the host of PUBLIC_URL", "GET", "Carillon.example", nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, _ := http.NewRequestWithContext(t.Context(), c.method, own, nil)
			req.Host = c.host
			for name, value := range c.header {
				req.Header.Set(name, value)
			}
			before := calls
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.want || (calls > before) != (c.want == 200) {
				t.Errorf("answered %d (%s), let through is %v; want %d", resp.StatusCode, body, calls > before, c.want)
			}
			if resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("another site may read this")
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"} {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestTheGRPCListenerSaysItsLimitsAndGivesUpTheSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lis := newPipes()
		server := grpc.NewServer(app.GRPCLimits(2000)...)
		ended := make(chan struct{})
		go func() { defer close(ended); _ = server.Serve(lis) }()
		defer func() { server.Stop(); <-ended }()

		silent := lis.dial()
		defer silent.Close()
		if took := endsAfter(t, silent); took > 11*time.Second {
			t.Errorf("a silent connection is given up after %s", took)
		}
		client := lis.dial()
		defer client.Close()
		go func() { _, _ = io.WriteString(client, http2.ClientPreface) }()
		frame, err := http2.NewFramer(io.Discard, client).ReadFrame()
		settings, ok := frame.(*http2.SettingsFrame)
		if err != nil || !ok {
			t.Fatalf("%v %v", frame, err)
		}
		for id, want := range map[http2.SettingID]uint32{http2.SettingMaxConcurrentStreams: 4000, http2.SettingMaxHeaderListSize: 16 << 10} {
			if got, _ := settings.Value(id); got != want {
				t.Errorf("%s is %d, want %d", id, got, want)
			}
		}
		_, _ = io.Copy(io.Discard, client)
	})
}
