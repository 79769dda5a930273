package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/carillon/carillon/internal/safehttp"
)

const (
	maxSaved = 16 << 20 // bytes of an answer that is saved
	maxShown = 64 << 10 // bytes of one that only goes to the log
)

// call makes a step's HTTP request, under the rules of package safehttp. It
// follows no redirect: a step may expect one.
func (e *Executor) call(ctx context.Context, s *scene, c *HTTPCall, env []string, log *stepLog) attempt {
	req, err := c.request(ctx, env)
	if err != nil {
		return attempt{message: "cannot send: " + err.Error()}
	}
	log.note("%s %s", req.Method, req.URL.Redacted())
	resp, err := e.client.Do(req)
	var refused *safehttp.RefusedError
	if errors.As(err, &refused) {
		return attempt{message: "was not sent: " + refused.Error()}
	}
	if err != nil {
		return attempt{message: "no answer: " + err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	log.note("%s", resp.Status)
	a := attempt{code: resp.StatusCode}
	if c.expects(resp.StatusCode) {
		a.message = c.keep(resp, filepath.Join(s.runDir, "files"), e.account, log)
		return a
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxShown)) // the status has decided; the body only explains
	_, _ = log.Write(body)
	a.message = fmt.Sprintf("was answered %s: %s", resp.Status, bytes.TrimSpace(body[:min(len(body), 500)]))
	return a
}

func (c *HTTPCall) expects(status int) bool {
	if len(c.ExpectStatus) == 0 {
		return status >= 200 && status < 300
	}
	return slices.Contains(c.ExpectStatus, status)
}

// keep saves the answer in the step's file, or writes it to the log. An empty
// message means success.
func (c *HTTPCall) keep(resp *http.Response, dir string, owner *account, log *stepLog) string {
	if c.SaveAs == "" {
		// It is only logged: an incomplete body does not matter.
		_, _ = io.Copy(log, io.LimitReader(resp.Body, maxShown))
		return ""
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSaved+1))
	if err != nil {
		return "the answer broke off: " + err.Error()
	}
	if len(body) > maxSaved {
		return fmt.Sprintf("got an answer of more than %d bytes, which is not saved", maxSaved)
	}
	if err := save(dir, c.SaveAs, body, owner); err != nil {
		return "could not save the answer: " + err.Error()
	}
	return ""
}

// save writes a file into a folder that commands can write to. A command may have
// put a link or a pipe of this name there, and this process may be root. So save
// writes a new file, renames it, and never leaves the folder.
func save(dir, name string, content []byte, owner *account) error {
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	fresh := ".new-" + rand.Text()
	file, err := folder.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, owner.ownsFile(file), file.Close())
	if err == nil {
		err = folder.Rename(fresh, name)
	}
	if err != nil {
		_ = folder.Remove(fresh)
	}
	return err
}

// request builds the request, with variables replaced.
func (c *HTTPCall) request(ctx context.Context, env []string) (*http.Request, error) {
	address, err := expand(c.URL, env)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("url %q is not an absolute http or https URL", address)
	}
	body, isJSON, err := c.content(env)
	if err != nil {
		return nil, err
	}
	method := c.Method
	if method == "" {
		method = http.MethodGet
		if body != nil {
			method = http.MethodPost
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "carillon")
	if isJSON {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.Headers {
		value, err := expand(value, env)
		if err != nil {
			return nil, err
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

// content is the body: the text of a JSON string, or other JSON unchanged. Variables are
// replaced in text only; in JSON they could break it.
func (c *HTTPCall) content(env []string) (body []byte, isJSON bool, err error) {
	if len(c.Body) == 0 || string(c.Body) == "null" {
		return nil, false, nil
	}
	var text string
	if json.Unmarshal(c.Body, &text) != nil {
		return c.Body, true, nil
	}
	text, err = expand(text, env)
	return []byte(text), false, err
}

var reference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// expand replaces ${NAME}. An unset name is an error: half an address may be a valid
// one.
func expand(text string, env []string) (string, error) {
	var missing error
	out := reference.ReplaceAllStringFunc(text, func(ref string) string {
		name := ref[2 : len(ref)-1]
		value, set := lookup(env, name)
		if !set {
			missing = fmt.Errorf("variable %s is not set", name)
		}
		return value
	})
	return out, missing
}
