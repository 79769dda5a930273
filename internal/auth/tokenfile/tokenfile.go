// Package tokenfile identifies callers by static tokens, for teams without an identity provider. The
// file contains only hashes, so reading it does not allow calls.
package tokenfile

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/reload"
	"github.com/carillon/carillon/internal/schedule"
)

// Prefix starts every token, so that secret scanners and the gate can recognize one.
const Prefix = "carillon_"

// The bounds of the file.
const (
	maxFile   = 1 << 20
	maxTokens = 1000
)

// Entry is one token in the file.
type Entry struct {
	Subject   string      `yaml:"subject"`
	Roles     []auth.Role `yaml:"roles"`
	Owner     string      `yaml:"owner,omitempty"`    // role user: the user_id that it acts as; default the subject
	Accounts  []string    `yaml:"accounts,omitempty"` // role user: billing accounts that it may create grants on
	SHA256    string      `yaml:"sha256"`
	ExpiresAt time.Time   `yaml:"expires_at,omitempty"`
}

// ErrUnknown refuses a token.
var ErrUnknown = errors.New("unknown or expired token")

// New makes a token, and returns the entry with its hash. The token is not stored.
func New(entry Entry) (token string, made Entry, err error) {
	token = Prefix + rand.Text() + rand.Text() // 260 bits: a hash without salt is enough
	sum := sha256.Sum256([]byte(token))
	entry.SHA256 = hex.EncodeToString(sum[:])
	_, err = entry.known()
	return token, entry, err
}

// Line is the entry in the format of the file, for the list "tokens:".
func (e *Entry) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - {subject: %q, roles: [%s]", e.Subject, joined(e.Roles))
	if e.Owner != "" {
		fmt.Fprintf(&b, ", owner: %q", e.Owner)
	}
	if len(e.Accounts) > 0 {
		fmt.Fprintf(&b, ", accounts: [%s]", quoted(e.Accounts))
	}
	fmt.Fprintf(&b, ", sha256: %s", e.SHA256)
	if !e.ExpiresAt.IsZero() {
		fmt.Fprintf(&b, ", expires_at: %s", e.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return b.String() + "}"
}

// quoted formats a YAML list. Without quotes an id such as 12:30 would not be a string.
func quoted(words []string) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = fmt.Sprintf("%q", word)
	}
	return strings.Join(out, ", ")
}

func joined(roles []auth.Role) string {
	words := make([]string, len(roles))
	for i, role := range roles {
		words[i] = string(role)
	}
	return strings.Join(words, ", ")
}

// known is a valid entry.
type known struct {
	hash      [sha256.Size]byte
	identity  auth.Identity
	expiresAt time.Time
}

func (e *Entry) known() (known, error) {
	k := known{expiresAt: e.ExpiresAt, identity: auth.Identity{Subject: e.Subject, Roles: e.Roles, Via: auth.ViaToken, Expires: e.ExpiresAt}}
	if !auth.ValidSubject(e.Subject) {
		return k, fmt.Errorf("subject: %s is not 1 to %d printable characters without a space at the beginning or end", schedule.Quote(e.Subject), auth.MaxSubject)
	}
	if len(e.Roles) == 0 {
		return k, fmt.Errorf("roles: %s has none; give at least one of %s", e.Subject, joined(auth.Roles))
	}
	for _, role := range e.Roles {
		if !slices.Contains(auth.Roles, role) {
			return k, fmt.Errorf("roles: %s is not one of %s", schedule.Quote(string(role)), joined(auth.Roles))
		}
	}
	if k.identity.NeedsOwner() {
		k.identity.Owner = e.Owner
		if e.Owner == "" {
			k.identity.Owner = e.Subject
		}
		if !schedule.ValidOwner(k.identity.Owner) {
			return k, fmt.Errorf("owner: %s is not a user_id; %s", schedule.Quote(k.identity.Owner), schedule.OwnerHint)
		}
	} else if e.Owner != "" {
		return k, fmt.Errorf("owner: %s is not allowed without the role user or publisher", schedule.Quote(e.Owner))
	}
	if len(e.Accounts) > 0 && !slices.Contains(e.Roles, auth.User) {
		return k, fmt.Errorf("accounts: %s is not allowed without the role user", quoted(e.Accounts))
	}
	for _, account := range e.Accounts {
		if !schedule.ValidID(account) {
			return k, fmt.Errorf("accounts: %s is not a billing account; use 1 to 128 of A–Z a–z 0–9 . _ : -", schedule.Quote(account))
		}
	}
	k.identity.Accounts = e.Accounts
	sum, err := hex.DecodeString(e.SHA256)
	if err != nil || len(sum) != len(k.hash) {
		return k, fmt.Errorf("sha256: %s of %s is not 64 hex digits; `carillon token new` writes the line", schedule.Quote(e.SHA256), e.Subject)
	}
	copy(k.hash[:], sum)
	return k, nil
}

// File is a tokens file, reloaded when it changes.
type File struct {
	file *reload.File[[]known]
	now  func() time.Time
}

// Open reads the file at path.
func Open(path string, log *slog.Logger, now func() time.Time) (*File, error) {
	if now == nil {
		now = time.Now
	}
	file, err := reload.Open(log, now, func() ([]known, error) { return read(path) }, path)
	if err != nil {
		return nil, err
	}
	return &File{file: file, now: now}, nil
}

func read(path string) ([]known, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	var all struct {
		Tokens []Entry `yaml:"tokens"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all.Tokens) > maxTokens {
		return nil, fmt.Errorf("%s has %d tokens, more than %d", path, len(all.Tokens), maxTokens)
	}
	out := make([]known, 0, len(all.Tokens))
	for i := range all.Tokens {
		k, err := all.Tokens[i].known()
		if err != nil {
			return nil, fmt.Errorf("%s: tokens[%d].%w", path, i, err)
		}
		if slices.ContainsFunc(out, func(o known) bool { return o.hash == k.hash }) {
			return nil, fmt.Errorf("%s: tokens[%d].sha256: is there twice", path, i)
		}
		out = append(out, k)
	}
	return out, nil
}

// Identify returns the identity of a token. It compares every entry in constant time, so that the
// response time reveals nothing.
func (f *File) Identify(token string) (auth.Identity, error) {
	sum := sha256.Sum256([]byte(token))
	entries := f.file.Get()
	found := -1
	for i := range entries {
		if subtle.ConstantTimeCompare(sum[:], entries[i].hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return auth.Identity{}, ErrUnknown
	}
	k := entries[found]
	if !k.expiresAt.IsZero() && !f.now().Before(k.expiresAt) {
		return auth.Identity{}, ErrUnknown
	}
	return k.identity, nil
}
