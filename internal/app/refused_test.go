package app_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// soon is less than the 30 s limit of a body, and long enough for a busy machine.
const soon = 10 * time.Second

// answerToAnnounced sends a header that announces a body, sends part of it and
// returns the status line's code and whether the server then ends the connection.
func answerToAnnounced(t *testing.T, addr, path, length string, headers ...string) (code int, closed bool) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(soon))
	if !strings.Contains(path, " ") {
		path = "POST " + path
	}
	if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n\r\n{", path, addr, strings.Join(append(headers, ""), "\r\n"), length); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the answer breaks off: %v", err)
	}
	_, err = io.Copy(io.Discard, conn)
	return resp.StatusCode, err == nil
}

func TestAnAnswerDoesNotWaitForAnUnreadBody(t *testing.T) {
	g := newGuarded(t, map[string]any{"internal_api_token": "of-graphs-and-jobs"})
	const short, long, chunked = "Content-Length: 1000", "Content-Length: 1000000", "Transfer-Encoding: chunked"
	for _, c := range []struct {
		name, path, length string
		headers            []string
		want               int
	}{
		{"a short body to REST", "/v1/schedules", short, nil, 401},
		{"a long body to REST", "/v1/schedules", long, nil, 401},
		{"a chunked body to REST", "/v1/schedules", chunked, nil, 401},
		{"a wrong token", "/v1/schedules", short, []string{"Authorization: Bearer carillon_none"}, 401},
		{"a path that does not exist", "/nothing", short, nil, 401},
		{"the graph run API", "/api/internal/graphs/w/runs", short, nil, 401},
		{"a page of the console", "/ui/schedules", short, nil, 401},
		{"live updates, which are not POSTed", "/ui/live", short, nil, 405},
		{"health, which is not POSTed", "/healthz", short, nil, 401},
		{"signing out, which reads no body", "/ui/signout", short, nil, 303},
		{"a page of another site", "/v1/schedules", short, []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"GET of health", "GET /readyz", short, nil, 200},
		{"GET of health, chunked", "GET /healthz", chunked, nil, 200},
		{"GET of a page that streams into its buffer", "GET /ui/signin", short, nil, 200},
		{"GET of live updates", "GET /ui/live", short, nil, 401},
		{"a foreign host on loopback", "http://evil.example/v1/schedules", short, nil, 421},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if code, closed := answerToAnnounced(t, g.HTTPAddr(), c.path, c.length, c.headers...); code != c.want || !closed {
				t.Errorf("answered %d, connection closed: %v; want %d and closed", code, closed, c.want)
			}
		})
	}
}

func TestAClientThatSendsItsWholeBodyReadsTheRefusal(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	for _, size := range []int{0, 10, 100 << 10, 250 << 10} {
		for range 20 {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.HTTPAddr()+"/v1/schedules", bytes.NewReader(make([]byte, size)))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if _ = resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%d bytes: %d", size, resp.StatusCode)
			}
		}
	}
}

// openCall starts HTTP/2 on a connection and sends the header of one request. The
// fields are names, each followed by its value.
func openCall(t *testing.T, conn net.Conn, fields ...string) *http2.Framer {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // into memory
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err := io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = framer.WriteSettings()
	}
	if err == nil {
		err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	return framer
}

func TestA401OverHTTP2DoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	g := newGuarded(t, p.settings(nil))
	config := p.client("")
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", g.HTTPAddr(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(soon))
	framer := openCall(t, conn, ":method", "POST", ":scheme", "https", ":path", "/v1/schedules", ":authority", g.HTTPAddr(), "content-length", "1000")
	// The two frames come in either order: the server's goroutine that writes frames
	// learns of the end of the connection and of the header by itself.
	answered, announced := "", false
	for answered == "" || !announced {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("status %q, end of the connection announced: %v, then %v; want 401 and announced", answered, announced, err)
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			answered = f.PseudoValue("status")
		case *http2.GoAwayFrame:
			announced = true
		}
	}
	if answered != "401" {
		t.Errorf("status %q, want 401", answered)
	}
}

// callLines counts the lines of a caller in the access log, "" = unidentified, and the calls that they
// represent.
func (g *guarded) callLines(subject string) (lines, calls int) {
	for line := range strings.Lines(g.logged()) {
		var l struct {
			Msg, Subject string
			LeftOut      int `json:"left_out"`
		}
		switch _ = json.Unmarshal([]byte(line), &l); {
		case l.Subject != subject:
		case l.Msg == "call":
			lines, calls = lines+1, calls+1+l.LeftOut
		case l.Msg == "refused calls not logged":
			lines, calls = lines+1, calls+l.LeftOut
		}
	}
	return lines, calls
}

func TestUnidentifiedCallersGetOneLineASecondAndEachCallIsCounted(t *testing.T) {
	g := newGuarded(t, nil) // at level debug, where the gate logs its reasons
	hex := strings.Repeat("a", 64)
	began := time.Now()
	const rounds = 100
	schedules, runs := carillonv1.NewScheduleServiceClient(g.conn), carillonv1.NewRunServiceClient(g.conn)
	for range rounds {
		if code, _ := g.send("", http.MethodGet, "/v1/schedules", ""); code != http.StatusUnauthorized {
			t.Fatalf("REST: %d", code)
		}
		if code, _ := g.send("", http.MethodGet, "/metrics", ""); code != http.StatusUnauthorized {
			t.Fatalf("metrics: %d", code)
		}
		if code, _ := g.send(hex, http.MethodPost, "/v1/runs/"+hex+":report", "{}"); code != http.StatusUnauthorized && code != http.StatusBadRequest {
			t.Fatalf("a report over REST: %d", code)
		}
		if _, err := schedules.ListSchedules(t.Context(), &carillonv1.ListSchedulesRequest{}); status.Code(err) != codes.Unauthenticated {
			t.Fatalf("gRPC: %v", err)
		}
		stream, err := runs.WatchRuns(t.Context(), &carillonv1.WatchRunsRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Unauthenticated {
			t.Fatalf("a stream: %v", err)
		}
	}
	for range rounds {
		if code, _ := g.send("viewer", http.MethodPost, "/v1/schedules/s:pause", "{}"); code != http.StatusForbidden {
			t.Fatalf("a viewer: %d", code)
		}
	}
	const strangers = 5 * rounds
	eventually(t, "each call is counted", func() bool { _, calls := g.callLines(""); return calls == strangers })
	lines, _ := g.callLines("")
	if most := int(time.Since(began).Seconds()) + 2; lines > most {
		t.Errorf("%d lines of strangers in %s", lines, time.Since(began))
	}
	reasons := strings.Count(g.logged(), "caller not identified")
	if most := 2 * (int(time.Since(began).Seconds()) + 2); reasons == 0 || reasons > most {
		t.Errorf("%d reasons of the gate in %s, want at most %d", reasons, time.Since(began), most)
	}
	eventually(t, "each refused call of a known caller is counted", func() bool { _, calls := g.callLines("subject-viewer"); return calls == rounds })
	if refusals, _ := g.callLines("subject-viewer"); refusals > int(time.Since(began).Seconds())+2 {
		t.Errorf("%d lines of refused calls of a known caller in %s", refusals, time.Since(began))
	}
	before, _ := g.callLines("subject-viewer")
	for range rounds {
		if code, _ := g.send("viewer", http.MethodGet, "/v1/schedules", ""); code != http.StatusOK {
			t.Fatalf("a viewer lists: %d", code)
		}
	}
	eventually(t, "each successful call of it has a line", func() bool { lines, _ := g.callLines("subject-viewer"); return lines == before+rounds })
	if _, metrics := g.send("viewer", http.MethodGet, "/metrics", ""); !strings.Contains(metrics, `carillon_calls_total{code="Unauthenticated",method="other"} 200`) {
		t.Error("the metrics do not count each call")
	}
}

func TestConnectionErrorsGetOneLineASecond(t *testing.T) {
	p := newPKI(t)
	g := newGuarded(t, p.settings(nil))
	began := time.Now()
	const connections = 200
	for range connections {
		conn, err := net.Dial("tcp", g.HTTPAddr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n") // in the clear, to a listener that speaks TLS
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
	sum := func() (lines, all int) {
		for line := range strings.Lines(g.logged()) {
			var l struct {
				Msg, Peer string
				LeftOut   int `json:"left_out"`
			}
			switch _ = json.Unmarshal([]byte(line), &l); l.Msg {
			case "connection error":
				lines, all = lines+1, all+1+l.LeftOut
			case "connection errors not logged":
				lines, all = lines+1, all+l.LeftOut
			default:
				continue
			}
			if l.Peer != "127.0.0.1" {
				t.Errorf("the line does not name the peer: %s", line)
			}
		}
		return lines, all
	}
	eventually(t, "each connection is counted", func() bool { _, all := sum(); return all == connections })
	if lines, _ := sum(); lines > int(time.Since(began).Seconds())+2 {
		t.Errorf("%d lines in %s", lines, time.Since(began))
	}
}

// A DNS rebinding page cannot call gRPC: without TLS browsers use HTTP/1.1, and with TLS no certificate
// has the page's name. Over TLS a page of another site cannot send a call without a preflight.
func TestABrowserCannotCallTheGRPCPort(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	plain := newGuarded(t, map[string]any{"auth": "off", "auth_tokens_file": ""})
	secure := newGuarded(t, map[string]any{"auth": "off", "auth_tokens_file": "", "tls_cert_file": p.path("server.pem"), "tls_key_file": p.path("server.key")})
	overTLS := &http.Client{Transport: &http.Transport{TLSClientConfig: p.client(""), ForceAttemptHTTP2: true}}
	t.Cleanup(overTLS.CloseIdleConnections)
	for _, c := range []struct {
		name        string
		method      string
		contentType string
	}{
		{"a request in the form of a call", "POST", "application/grpc"},
		{"a request that needs no preflight", "POST", "text/plain"},
		{"a form", "POST", "application/x-www-form-urlencoded"},
		{"a preflight", "OPTIONS", ""},
		{"reading", "GET", "application/grpc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, over := range []struct {
				g      *guarded
				client *http.Client
				scheme string
			}{{plain, http.DefaultClient, "http://"}, {secure, overTLS, "https://"}} {
				if over.g == secure && c.method == "POST" && c.contentType == "application/grpc" {
					continue // a program may; a page needs a preflight first
				}
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				req, _ := http.NewRequestWithContext(ctx, c.method, over.scheme+over.g.GRPCAddr()+"/carillon.v1.ScheduleService/ListSchedules", bytes.NewReader(make([]byte, 5)))
				req.Header.Set("Content-Type", c.contentType)
				req.Header.Set("Origin", "https://evil.example")
				resp, err := over.client.Do(req)
				if err != nil {
					continue // the connection is refused
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK || resp.Header.Get("Access-Control-Allow-Origin") != "" || resp.Trailer.Get("Grpc-Status") == "0" {
					t.Errorf("over %s: %d, %v", over.scheme, resp.StatusCode, resp.Header)
				}
			}
			for _, g := range []*guarded{plain, secure} {
				if strings.Contains(g.logged(), "ListSchedules") {
					t.Error("the call was made")
				}
			}
		})
	}
}

func TestACallWithoutAHostIsLoggedWithItsPeer(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	conn, err := net.Dial("tcp", g.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(soon))
	_, _ = fmt.Fprintf(conn, "GET /v1/schedules HTTP/1.1\r\nHost:\r\nX-Forwarded-For: 192.0.2.9\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", g.tokens["viewer"])
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Fatalf("%s %v", answer, err)
	}
	if !strings.Contains(g.logged(), `"protocol":"rest","peer":"127.0.0.1","auth":"token","subject":"subject-viewer"`) {
		t.Errorf("the log has no such line:\n%s", g.logged())
	}
}
