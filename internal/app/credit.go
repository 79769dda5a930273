package app

import (
	"errors"
	"fmt"

	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/creditgate"
)

// creditGate is who is asked whether an account can pay; nil: nobody.
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

// checkCredit says what is wrong with the settings of the gate.
func (c *Config) checkCredit() error {
	if c.CreditGateURL == "" {
		return nil
	}
	gate, err := creditgate.New(creditgate.Options{URL: c.CreditGateURL})
	if err != nil {
		return errors.New("CREDIT_GATE_URL: " + err.Error()) // its text may hold a password
	}
	gate.Close()
	return nil
}
