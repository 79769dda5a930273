package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	httpTimeout = 15 * time.Second // of one attempt, from the look-up to the end of the answer

	maxAnswer = 4 << 10 // bytes of an answer that are read, so that the connection can be used again
	maxSaid   = 200     // characters of it that are kept
	maxError  = 300
)

// call is one POST of a JSON document.
type call struct {
	url    string
	header map[string]string
	body   []byte
	// hide are secrets that neither an error nor a quoted answer may show. nil:
	// nothing of the answer is kept.
	hide []string
}

// post sends a call and classifies the answer.
func post(ctx context.Context, client *http.Client, c call) Result {
	ctx, cancel := context.WithTimeout(ctx, httpTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return Result{Problem: "the URL is invalid"} // the error would show it
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Carillon")
	resp, err := client.Do(req)
	if err != nil {
		return Result{Problem: redact(problemOf(err), c.hide)}
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // cut off or not, the status counts
	r := classify(resp)
	if r.Problem != "" && c.hide != nil {
		if text := oneLine(redact(string(said), c.hide), maxSaid); text != "" {
			r.Problem += ": " + text
		}
	}
	return r
}

// postJSON sends a document to a receiver with a fixed format: a document that it cannot read is
// final.
func postJSON(ctx context.Context, client *http.Client, c call, document any) Result {
	body, err := json.Marshal(document)
	if err != nil {
		panic("a notification is not JSON: " + err.Error()) // words, numbers and times always are
	}
	c.body = body
	r := post(ctx, client, c)
	switch r.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		r.Final = true
	}
	return r
}

func classify(resp *http.Response) Result {
	r := Result{Status: resp.StatusCode}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
	case code == http.StatusGone:
		r.Gone, r.Final, r.Problem = true, true, "the target answered 410 (gone)"
	case code >= 300 && code < 400:
		r.Problem = fmt.Sprintf("the target answered %d, and redirects are not followed: set the final address", code)
	default:
		r.Problem = fmt.Sprintf("the target answered %d", code)
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
			r.After = time.Duration(min(seconds, int(time.Hour/time.Second))) * time.Second
		}
	}
	return r
}

// problemOf says what went wrong without the URL, which may hold a secret.
func problemOf(err error) string {
	var called *url.Error
	if errors.As(err, &called) {
		err = called.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", httpTimeout)
	}
	return oneLine(err.Error(), maxError)
}

// redact removes secrets from external text: some servers repeat the requested path.
func redact(text string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) > 3 {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// secretsOf are the parts of a URL that identify its sender.
func secretsOf(u *url.URL) []string {
	return []string{u.String(), u.RequestURI(), u.EscapedPath(), u.RawQuery}
}
