package creditgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// Timeout bounds one question, from the connection to the last byte.
const Timeout = 2 * time.Second

// Limits of an answer, and of its message.
const (
	maxAnswer  = 64 << 10
	maxMessage = 300
)

// Options are a Gate's parts.
type Options struct {
	URL   string // CREDIT_GATE_URL
	Token string // CREDIT_GATE_TOKEN; empty: none is shown
}

// Gate asks a billing service.
type Gate struct {
	url    string
	token  string
	client *http.Client
}

// New makes a Gate. It is an error if the URL is none.
func New(o Options) (*Gate, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("is not an http or https URL")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 8
	return &Gate{url: o.URL, token: o.Token, client: &http.Client{
		Transport: transport, Timeout: Timeout,
		// What answers in another place is not the billing service.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close lets go of idle connections.
func (g *Gate) Close() { g.client.CloseIdleConnections() }

type question struct {
	BillingAccountID string `json:"billing_account_id"`
	UserID           string `json:"user_id"`
	WorkflowID       string `json:"workflow_id"`
	Model            string `json:"model"`
	Grant            bool   `json:"grant,omitempty"`
}

type answer struct {
	Payable  *bool  `json:"payable"`
	MayGrant bool   `json:"may_grant"`
	Free     bool   `json:"free"`
	Message  string `json:"message"`
}

// Ask asks one question. An error says that there is no answer: the service
// cannot be reached in time, or does not speak the contract.
func (g *Gate) Ask(ctx context.Context, q registrar.CreditQuestion) (registrar.CreditAnswer, error) {
	body, err := json.Marshal(question{q.BillingAccountID, q.UserID, q.WorkflowID, q.Model, q.Grant})
	if err != nil {
		return registrar.CreditAnswer{}, fmt.Errorf("write question: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, bytes.NewReader(body))
	if err != nil {
		return registrar.CreditAnswer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if g.token != "" {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return registrar.CreditAnswer{}, withoutURL(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return registrar.CreditAnswer{}, fmt.Errorf("read answer: %w", err)
	case resp.StatusCode != http.StatusOK:
		return registrar.CreditAnswer{}, fmt.Errorf("answered %d, want 200", resp.StatusCode)
	case len(text) > maxAnswer:
		return registrar.CreditAnswer{}, fmt.Errorf("answered more than %d bytes", maxAnswer)
	}
	return read(text, q.Grant)
}

// read refuses an answer that does not say whether. To a question with grant
// only may_grant says yes: a service that does not know the question, and
// answers that the account can pay, does not vouch for the user.
func read(text []byte, grant bool) (registrar.CreditAnswer, error) {
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return registrar.CreditAnswer{}, fmt.Errorf("answered no JSON of the contract: %w", err)
	}
	if grant {
		return registrar.CreditAnswer{MayGrant: a.MayGrant, Message: legible(a.Message)}, nil
	}
	if a.Payable == nil && !a.Free {
		return registrar.CreditAnswer{}, errors.New("answered neither payable nor free")
	}
	return registrar.CreditAnswer{
		Payable: a.Free || *a.Payable, Message: legible(a.Message),
	}, nil
}

// withoutURL is an error of the client without the address, which may hold a secret.
func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// legible makes a message fit for our answers.
func legible(message string) string {
	message = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, message)
	return strings.TrimSpace(schedule.Storable(message, maxMessage))
}
