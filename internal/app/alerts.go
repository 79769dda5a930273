package app

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/auth/reload"
	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/alert"
	registrarapi "github.com/carillon/carillon/registrar/api"
	"github.com/carillon/carillon/registrar/notify"
)

// buildAlerts builds the evaluation of expectations and the notifications. Every registrar runs them,
// without a leader.
func (a *App) buildAlerts(reg *registrar.Registrar) (registrarapi.Alerts, error) {
	if !a.cfg.Has("registrar") {
		return nil, nil
	}
	policy, err := safehttp.ParsePolicy(a.cfg.AllowEgress)
	if err != nil {
		return nil, fmt.Errorf("ALLOW_EGRESS: %w", err)
	}
	routes, err := a.notifyRoutes()
	if err != nil {
		return nil, err
	}
	a.watch = alert.New(alert.Options{
		Expectations: a.store, Explainer: reg, Outbox: a.store, Output: a.store, Routes: routes, Client: policy.NewClient(safehttp.Options{}), Now: a.store.Now,
		Logger: a.log, Registry: a.registry, PublicURL: a.publicURL(), Environment: a.cfg.Environment,
		OnFailure: map[string]schedule.OnFailure{"failure": schedule.OnFailureAlert, "none": schedule.OnFailureIgnore}[a.cfg.DefaultExpect],
	})
	return alert.NewDesk(a.store, a.watch), nil
}

// notifyRoutes returns a function for the current routes of NOTIFY_FILE.
func (a *App) notifyRoutes() (func() *notify.Routes, error) {
	if a.cfg.NotifyFile == "" {
		routes, err := a.cfg.readRoutes()
		return func() *notify.Routes { return routes }, err
	}
	file, err := reload.Open(a.log.With("component", "notify"), nil, a.cfg.readRoutes, a.cfg.NotifyFile)
	if err != nil {
		return nil, err
	}
	return file.Get, nil
}

// watchExpectations evaluates expectations and sends notifications until ctx ends.
func (a *App) watchExpectations(ctx context.Context) error {
	if a.watch == nil {
		return nil
	}
	return a.watch.Run(ctx)
}

// readRoutes reads ALERT_WEBHOOK_URL and NOTIFY_FILE.
func (c *Config) readRoutes() (*notify.Routes, error) {
	policy, err := safehttp.ParsePolicy(c.AllowEgress)
	if err != nil {
		return nil, fmt.Errorf("ALLOW_EGRESS: %w", err)
	}
	always, err := notify.ParseTargets(c.AlertWebhookURL.Reveal(), c.AlertWebhookSecret.Reveal(), policy)
	if err != nil {
		return nil, err
	}
	routes, err := notify.Read(c.NotifyFile, always, policy)
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_FILE: %w", err)
	}
	return routes, nil
}

// checkAlerts checks the targets of notifications. Only registrars send messages, so only they read
// NOTIFY_FILE.
func (c *Config) checkAlerts() error {
	if _, err := safehttp.ParsePolicy(c.AllowEgress); err != nil {
		return nil // Validate reports it
	}
	if !c.Has("registrar") {
		copied := *c
		copied.NotifyFile = ""
		c = &copied
	}
	_, err := c.readRoutes()
	return err
}
