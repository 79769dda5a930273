package httpexecutor

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Probe sends OPTIONS to the run URL of the workflow "carillon-doctor"; only POST
// starts a run. Every status below 500 proves that the executor answers, also 404
// and 405, and so does 501, the answer of servers without a handler for OPTIONS
// (RFC 9110, 15.6.2). An HTML page with status 2xx does not: the URL belongs to
// something else.
func (e *Executor) Probe(ctx context.Context) (says string, err error) {
	target := expand(e.cfg.URL, map[string]string{workflowID: "carillon-doctor", version: "1", environment: e.cfg.Environment})
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, target, http.NoBody)
	if err != nil {
		return "", err
	}
	if e.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+e.cfg.Token)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // only the status matters
	says = fmt.Sprintf("%s answers OPTIONS with %s", req.URL.Host, resp.Status)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= http.StatusInternalServerError && resp.StatusCode != http.StatusNotImplemented:
		return "", fmt.Errorf("%s", says)
	case resp.StatusCode < http.StatusMultipleChoices && strings.EqualFold(kind, "text/html"):
		return "", fmt.Errorf("%s and a page of HTML: it is not an executor", says)
	}
	return says, nil
}
