package httpexecutor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor"
)

// maxAnswer caps the bytes that are read of an answer. It is far above a result, artifacts and a commit that
// are kept: the end of a run counts even if its result is too large.
const (
	maxAnswer = 2 << 20
	maxHeader = 64 << 10
)

// Executor hands runs to an HTTP service. It is safe for concurrent use.
type Executor struct {
	cfg    Config
	client *http.Client
}

var _ launcher.Executor = (*Executor)(nil)

// New makes an executor of a valid configuration; it opens no connection yet.
func New(cfg Config) (*Executor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Dialect == DialectGraph {
		cfg.URL = cfg.graphURL()
	}
	// HTTP/1.1 only: a connection carries one request at a time, so the bytes written
	// to it say whether the request was sent.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialGated(&net.Dialer{Timeout: cfg.Timeout, KeepAlive: 30 * time.Second}),
		Protocols:              protocols,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    256, // launches come in bursts at full minutes
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    cfg.Timeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Executor{cfg: cfg, client: client}, nil
}

// CanCancel reports whether EXECUTOR_CANCEL_URL is set.
func (e *Executor) CanCancel() bool { return e.cfg.CancelURL != "" }

// Close closes idle connections.
func (e *Executor) Close() { e.client.CloseIdleConnections() }

// Run hands one run over; see launcher.Executor.
func (e *Executor) Run(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	if climbs(e.cfg.URL, workflowID, call.WorkflowID) {
		return schedule.Outcome{}, &launcher.Refusal{
			Code:    string(schedule.CodeWorkflowIDUnsafe),
			Unsent:  true,
			Message: "workflow_id " + call.WorkflowID + " cannot be used in the path of EXECUTOR_URL; rename the workflow",
		}
	}
	build, read := e.cfg.carillonRequest, readCarillon
	if e.cfg.Dialect == DialectGraph {
		build, read = e.cfg.graphRequest, readGraph
	}
	req, err := build(call)
	if err != nil {
		return schedule.Outcome{}, &launcher.Refusal{Code: string(schedule.CodeRequestInvalid), Unsent: true, Message: executor.Text(err.Error(), executor.MaxMessage)}
	}
	if call.TraceParent != "" {
		req.header["traceparent"] = call.TraceParent
	}
	if !call.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, call.Deadline)
		defer cancel()
	}
	answer, err := e.send(ctx, http.MethodPost, call.Key, call.SendBy, req)
	if err != nil {
		return schedule.Outcome{}, fmt.Errorf("call the executor: %w", err)
	}
	outcome, err := answer.outcome(call.Key, read)
	if e.cfg.Dialect == DialectGraph {
		err = graphConflict(answer.status, err)
	}
	if err != nil {
		return schedule.Outcome{}, err
	}
	if outcome.TraceID == "" {
		outcome.TraceID = executor.TraceID(call.Key)
	}
	return outcome, nil
}

// Cancel sends DELETE to EXECUTOR_CANCEL_URL; see launcher.Executor.
func (e *Executor) Cancel(ctx context.Context, ref schedule.CancelRequest) error {
	if !e.CanCancel() {
		return fmt.Errorf("cancel: %w: EXECUTOR_CANCEL_URL is not set", launcher.ErrUnsupported)
	}
	req, err := e.cfg.cancelRequest(ref)
	if err != nil {
		return fmt.Errorf("cancel: %w: %w", launcher.ErrNotSent, err)
	}
	answer, err := e.send(ctx, http.MethodDelete, ref.Key, time.Time{}, req)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	switch {
	case answer.status == http.StatusAccepted:
		return fmt.Errorf("cancel: %w", launcher.ErrCancelAccepted)
	case answer.status >= 200 && answer.status < 300:
		return nil
	case answer.status == http.StatusNotFound, answer.status == http.StatusGone:
		return fmt.Errorf("cancel: %w: the executor answered %d", schedule.ErrNotFound, answer.status)
	}
	return fmt.Errorf("cancel: unknown outcome: %s", answer.describe())
}

// GetByKey is not part of the HTTP contract; the same key is sent again instead.
func (e *Executor) GetByKey(context.Context, schedule.RunRef) (schedule.Outcome, error) {
	return schedule.Outcome{}, fmt.Errorf("ask by key: %w", launcher.ErrUnsupported)
}

// send makes one call and reads the whole answer. It writes nothing after by
// (zero: no limit). The error wraps ErrNotSent if no byte was or will be sent.
func (e *Executor) send(ctx context.Context, method string, key schedule.Key, by time.Time, r request) (answer, error) {
	if !by.IsZero() && !time.Now().Before(by) {
		return answer{}, fmt.Errorf("%w: %w", launcher.ErrNotSent, errLate)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	sent := &sending{by: by}
	ctx, over := sent.watch(ctx)
	defer over()
	req, err := http.NewRequestWithContext(ctx, method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", launcher.ErrNotSent, bare(err))
	}
	req.Header.Set("User-Agent", "carillon")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("traceparent", executor.TraceParent(key))
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if e.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+e.cfg.Token)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	resp, err := e.client.Do(req)
	if err != nil && !sent.end() {
		return answer{}, fmt.Errorf("%w: %w", launcher.ErrNotSent, bare(err))
	}
	if err != nil {
		return answer{}, launcher.Unanswered(time.Since(began), e.cfg.Timeout, bare(err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return answer{}, launcher.Unanswered(time.Since(began), e.cfg.Timeout, fmt.Errorf("read the executor's answer (%d): %w", resp.StatusCode, err))
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// bare drops the URL that net/http puts before an error: its query may hold a
// secret.
func bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
