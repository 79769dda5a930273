package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/carillon/carillon/internal/safehttp"
)

// webhook is a target that speaks Standard Webhooks (standardwebhooks.com).
type webhook struct {
	url     source
	secrets source // of signatures, as parseSecrets reads them
}

// The bounds of a secret by Standard Webhooks, in bytes.
const (
	leastSecret  = 24
	mostSecret   = 64
	secretPrefix = "whsec_"
)

// ParseTargets reads ALERT_WEBHOOK_URL and ALERT_WEBHOOK_SECRET: URLs separated
// by commas, and as many secrets, or one for all. A secret may be several words
// separated by spaces: messages are signed with each, so that a receiver can
// change from one to the next. Errors name a URL by its place and host, and no
// secret.
func ParseTargets(urls, secrets string, policy safehttp.Policy) ([]Target, error) {
	if strings.TrimSpace(urls) == "" {
		return nil, nil
	}
	if strings.TrimSpace(secrets) == "" {
		return nil, errors.New("ALERT_WEBHOOK_SECRET: is required with ALERT_WEBHOOK_URL, so that receivers can verify notifications: " + secretHint)
	}
	each := strings.Split(urls, ",")
	keys := strings.Split(secrets, ",")
	if len(keys) != 1 && len(keys) != len(each) {
		return nil, fmt.Errorf("ALERT_WEBHOOK_SECRET: has %d secrets for %d URLs; give one for each, or one for all", len(keys), len(each))
	}
	targets := make([]Target, len(each))
	seen := make(map[string]bool)
	for i, text := range each {
		text, key := strings.TrimSpace(text), keys[min(i, len(keys)-1)]
		u, err := parseURL(text, policy)
		if err != nil {
			return nil, fmt.Errorf("ALERT_WEBHOOK_URL: number %d %w", i+1, err)
		}
		sum := sha256.Sum256([]byte(text))
		t := Target{ID: hex.EncodeToString(sum[:6]), Kind: KindWebhook, Host: u.Host, sender: &webhook{url: literal(text), secrets: literal(key)}}
		if seen[t.ID] {
			return nil, fmt.Errorf("ALERT_WEBHOOK_URL: number %d (%s) is there twice", i+1, t.Host)
		}
		seen[t.ID] = true
		if _, err = parseSecrets(key); err != nil {
			return nil, fmt.Errorf("ALERT_WEBHOOK_SECRET: number %d %w", min(i, len(keys)-1)+1, err)
		}
		targets[i] = t
	}
	return targets, nil
}

func parseURL(text string, policy safehttp.Policy) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is not a URL") // the error would repeat its text
	}
	if err := policy.CheckURL(u); err != nil {
		return nil, fmt.Errorf("(host %q) is refused: %w", u.Host, err)
	}
	return u, nil
}

const secretHint = `whsec_ and 24 to 64 random bytes in base64, as of: echo "whsec_$(openssl rand -base64 32)"`

func parseSecrets(text string) ([][]byte, error) {
	var secrets [][]byte
	for word := range strings.FieldsSeq(text) {
		encoded, ok := strings.CutPrefix(word, secretPrefix)
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(raw) < leastSecret || len(raw) > mostSecret {
			return nil, errors.New("is not " + secretHint)
		}
		secrets = append(secrets, raw)
	}
	if len(secrets) == 0 {
		return nil, errors.New("is empty: give " + secretHint)
	}
	return secrets, nil
}

// Send posts the payload unchanged with a new signature at each attempt. The answer is not stored.
func (w *webhook) Send(ctx context.Context, o Outgoing) Result {
	address, err := w.url.read()
	if err != nil {
		return Result{Problem: err.Error()}
	}
	text, err := w.secrets.read()
	if err != nil {
		return Result{Problem: err.Error()}
	}
	keys, err := parseSecrets(text)
	if err != nil {
		return Result{Problem: "secret: " + err.Error()}
	}
	unix := o.Now.Unix()
	return post(ctx, o.Client, call{url: address, body: []byte(o.Payload), header: map[string]string{
		"webhook-id": o.ID, "webhook-timestamp": strconv.FormatInt(unix, 10), "webhook-signature": sign(keys, o.ID, unix, o.Payload),
	}})
}

// sign is the webhook-signature of a message: by each secret, HMAC-SHA256 over
// id.timestamp.payload.
func sign(keys [][]byte, id string, unix int64, payload string) string {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(unix, 10) + "." + payload))
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}
