package signed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// fetchedKeys come from the issuer's JWKS address.
type fetchedKeys struct {
	cfg *Config

	mu       sync.Mutex
	usable   []key
	searched time.Time // when keys were last fetched for an unknown kid
}

// fetchKeys fetches the keys now and every fetchEvery until ctx ends. An unreachable issuer does not
// prevent the start.
func fetchKeys(ctx context.Context, c *Config) keys {
	f := &fetchedKeys{cfg: c}
	f.refresh(ctx)
	go func() {
		ticker := time.NewTicker(fetchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f.refresh(ctx)
			}
		}
	}()
	return f
}

func (f *fetchedKeys) named(ctx context.Context, kid string) (key, bool) {
	if k, found := f.find(kid); found || !f.maySearch() {
		return k, found
	}
	f.refresh(context.WithoutCancel(ctx)) // a caller who disconnects must not use up the search
	return f.find(kid)
}

func (f *fetchedKeys) find(kid string) (key, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.usable, func(k key) bool { return k.kid == kid })
	if i < 0 {
		return key{}, false
	}
	return f.usable[i], true
}

// maySearch reports whether keys may be fetched for an unknown kid now.
func (f *fetchedKeys) maySearch() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.searched) < fetchUnknown {
		return false
	}
	f.searched = time.Now()
	return true
}

func (f *fetchedKeys) only(context.Context) (key, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.usable) != 1 {
		return key{}, false
	}
	return f.usable[0], true
}

// refresh replaces all keys, so that a withdrawn one is refused.
func (f *fetchedKeys) refresh(ctx context.Context) {
	found, err := f.fetch(ctx)
	if err != nil {
		f.cfg.Logger.ErrorContext(ctx, "cannot fetch the keys of AUTH_JWKS_URL; the previous keys stay in use", "url", f.cfg.JWKSURL, "err", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.usable = found
}

func (f *fetchedKeys) fetch(ctx context.Context) ([]key, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.cfg.JWKSURL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.cfg.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the issuer answers %s", resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	if err != nil {
		return nil, fmt.Errorf("read the issuer's answer: %w", err)
	}
	if len(text) > maxKeySet {
		return nil, fmt.Errorf("the issuer's answer has more than %d bytes", maxKeySet)
	}
	set, err := parseJWKS(text)
	if err != nil {
		return nil, err
	}
	var found []key
	for _, one := range set { // skip keys of other kinds and for other uses
		if k, err := one.usable(f.cfg.Algorithms); err == nil {
			found = append(found, k)
		}
	}
	return found, nil
}

func noRedirect(*http.Request, []*http.Request) error {
	return errors.New("the address of the keys redirects; set the final address")
}
