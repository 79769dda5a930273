package app

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/registrar/alert"
	registrarapi "github.com/carillon/carillon/registrar/api"
)

// buildAlerts makes what judges and tells of runs that did not happen. It is the
// registrar's, and needs no leader.
func (a *App) buildAlerts() (registrarapi.Alerts, error) {
	if !a.cfg.Has("registrar") {
		return nil, nil
	}
	targets, policy, err := a.cfg.alertTargets()
	if err != nil {
		return nil, err
	}
	a.watch = alert.New(alert.Options{
		Judge: a.store, Outbox: a.store, Targets: targets, Client: policy.NewClient(safehttp.Options{}),
		Now: a.store.Now, Logger: a.log, Registry: a.registry, PublicURL: a.publicURL(),
	})
	return alert.NewDesk(a.store, a.watch), nil
}

// watchExpectations judges and tells until ctx ends.
func (a *App) watchExpectations(ctx context.Context) error {
	if a.watch == nil {
		return nil
	}
	return a.watch.Run(ctx)
}

func (c *Config) alertTargets() ([]alert.Target, safehttp.Policy, error) {
	policy, err := safehttp.ParsePolicy(c.AllowEgress)
	if err != nil {
		return nil, policy, fmt.Errorf("ALLOW_EGRESS: %w", err)
	}
	targets, err := alert.ParseTargets(c.AlertWebhookURL.Reveal(), c.AlertWebhookSecret.Reveal(), policy)
	return targets, policy, err
}

// checkAlerts says what is wrong with the targets of alerts.
func (c *Config) checkAlerts() error {
	if _, err := safehttp.ParsePolicy(c.AllowEgress); err != nil {
		return nil // said elsewhere
	}
	_, _, err := c.alertTargets()
	return err
}
