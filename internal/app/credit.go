package app

import (
	"errors"
	"fmt"

	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/creditgate"
)

// creditGate returns the client that checks an account's credit; nil without CREDIT_GATE_URL.
func (a *App) creditGate() (registrar.CreditGate, error) {
	if a.cfg.CreditGateURL == "" || !a.cfg.Has("registrar") {
		return nil, nil
	}
	gate, err := creditgate.New(creditgate.Options{URL: a.cfg.CreditGateURL, Token: a.cfg.CreditGateToken.Reveal()})
	if err != nil {
		return nil, fmt.Errorf("CREDIT_GATE_URL: %w", err)
	}
	a.credit = gate
	return gate, nil
}

// checkCredit checks the settings of the credit gate.
func (c *Config) checkCredit() error {
	if c.CreditGateURL == "" {
		return nil
	}
	gate, err := creditgate.New(creditgate.Options{URL: c.CreditGateURL})
	if err != nil {
		return errors.New("CREDIT_GATE_URL: " + err.Error()) // the URL may contain a password
	}
	gate.Close()
	return nil
}
