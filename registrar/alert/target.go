package alert

import (
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

// Target is where messages are sent, and what they are signed with.
type Target struct {
	ID      string // a hash of the URL: that may hold a secret, and is kept nowhere
	Host    string
	url     string
	secrets [][]byte
}

// The bounds of a secret by Standard Webhooks, in bytes.
const (
	leastSecret  = 24
	mostSecret   = 64
	secretPrefix = "whsec_"
)

// ParseTargets reads ALERT_WEBHOOK_URL and ALERT_WEBHOOK_SECRET: URLs separated
// by commas, and as many secrets, or one for all. A secret may be several behind
// each other, separated by spaces: messages are then signed with each, so that a
// receiver can go from one to the next. Errors name a URL by its place and host,
// and no secret.
func ParseTargets(urls, secrets string, policy safehttp.Policy) ([]Target, error) {
	if strings.TrimSpace(urls) == "" {
		return nil, nil
	}
	if strings.TrimSpace(secrets) == "" {
		return nil, errors.New("ALERT_WEBHOOK_SECRET: is needed with ALERT_WEBHOOK_URL, so that receivers can tell our messages from others': " + secretHint)
	}
	each := strings.Split(urls, ",")
	keys := strings.Split(secrets, ",")
	if len(keys) != 1 && len(keys) != len(each) {
		return nil, fmt.Errorf("ALERT_WEBHOOK_SECRET: has %d secrets for %d URLs; give one for each, or one for all", len(keys), len(each))
	}
	targets := make([]Target, len(each))
	seen := make(map[string]bool)
	for i, text := range each {
		t, err := parseTarget(strings.TrimSpace(text), policy)
		if err != nil {
			return nil, fmt.Errorf("ALERT_WEBHOOK_URL: number %d %w", i+1, err)
		}
		if seen[t.ID] {
			return nil, fmt.Errorf("ALERT_WEBHOOK_URL: number %d (%s) stands there twice", i+1, t.Host)
		}
		seen[t.ID] = true
		if t.secrets, err = parseSecrets(keys[min(i, len(keys)-1)]); err != nil {
			return nil, fmt.Errorf("ALERT_WEBHOOK_SECRET: number %d %w", min(i, len(keys)-1)+1, err)
		}
		targets[i] = t
	}
	return targets, nil
}

func parseTarget(text string, policy safehttp.Policy) (Target, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Target{}, errors.New("is not a URL") // whose text the error would repeat
	}
	if err := policy.CheckURL(u); err != nil {
		return Target{}, fmt.Errorf("(host %q) is refused: %w", u.Host, err)
	}
	sum := sha256.Sum256([]byte(text))
	return Target{ID: hex.EncodeToString(sum[:6]), Host: u.Host, url: text}, nil
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

// sign is the webhook-signature of a message: by each secret, HMAC-SHA256 over
// id.timestamp.payload.
func (t *Target) sign(id string, unix int64, payload string) string {
	signatures := make([]string, len(t.secrets))
	for i, secret := range t.secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + strconv.FormatInt(unix, 10) + "." + payload))
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}
