package app

import (
	"context"
	"errors"
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
		Expectations: a.store, Explainer: reg, Outbox: a.store, Output: a.store, Routes: routes, RunHooks: a.runHooks, Run: registrarapi.RunMessages(reg, a.cfg.links()), Group: registrarapi.GroupMessages(reg.GroupOfNo), Client: policy.NewClient(safehttp.Options{}), Now: a.store.Now,
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

// readRunHooks opens WEBHOOK_TARGETS_FILE, before the registrar that asks for its targets is built.
func (a *App) readRunHooks() error {
	if !a.cfg.Has("registrar") || a.cfg.WebhookTargetsFile == "" {
		return nil
	}
	file, err := reload.Open(a.log.With("component", "webhooks"), nil, a.cfg.readRunHooks, a.cfg.WebhookTargetsFile)
	if err == nil {
		a.runHooks = file.Get
	}
	return err
}

// webhook answers who may use a webhook target; nil: there are none.
func (a *App) webhook() func(name string) (owners []string, ok bool) {
	if a.runHooks == nil {
		return nil
	}
	return func(name string) (owners []string, ok bool) {
		h := a.runHooks().Named(name)
		if h == nil {
			return nil, false
		}
		return h.Owners, true
	}
}

// wakeOutbox has the outbox looked at soon.
func (a *App) wakeOutbox() {
	if a.watch != nil {
		a.watch.Wake()
	}
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

// readRunHooks reads WEBHOOK_TARGETS_FILE.
func (c *Config) readRunHooks() (*notify.RunHooks, error) {
	policy, err := safehttp.ParsePolicy(c.AllowEgress)
	if err != nil {
		return nil, fmt.Errorf("ALLOW_EGRESS: %w", err)
	}
	hooks, err := notify.ReadRunHooks(c.WebhookTargetsFile, policy)
	if err != nil {
		return nil, fmt.Errorf("WEBHOOK_TARGETS_FILE: %w", err)
	}
	return hooks, nil
}

// checkAlerts checks the targets of notifications and webhooks. Only registrars send messages, so
// only they read NOTIFY_FILE and WEBHOOK_TARGETS_FILE.
func (c *Config) checkAlerts() error {
	if _, err := safehttp.ParsePolicy(c.AllowEgress); err != nil {
		return nil // Validate reports it
	}
	if !c.Has("registrar") {
		copied := *c
		copied.NotifyFile, copied.WebhookTargetsFile = "", ""
		c = &copied
	}
	_, err := c.readRoutes()
	_, hooksErr := c.readRunHooks()
	return errors.Join(err, hooksErr)
}
