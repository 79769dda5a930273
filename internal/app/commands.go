package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	registrarapi "github.com/carillon/carillon/registrar/api"
)

// storingRoles are the roles that LOCAL_EXECUTOR_ROLES accepts.
var storingRoles = []auth.Role{auth.Operator, auth.Compiler, auth.User}

// commandRoles reads LOCAL_EXECUTOR_ROLES; nil if unset.
func (c *Config) commandRoles() (roles []auth.Role, err error) {
	for word := range strings.SplitSeq(c.LocalExecutorRoles, ",") {
		role := auth.Role(strings.TrimSpace(word))
		switch {
		case role == "":
		case !slices.Contains(storingRoles, role):
			return nil, fmt.Errorf("LOCAL_EXECUTOR_ROLES: %s is not one of operator, compiler, user", schedule.Quote(string(role)))
		default:
			roles = append(roles, role)
		}
	}
	return roles, nil
}

// localExecutorProblems returns the errors of the settings that allow commands on this machine.
func (c *Config) localExecutorProblems() []error {
	roles, err := c.commandRoles()
	if err != nil {
		return []error{err}
	}
	var problems []error
	if c.Executor == "local" && c.authOn() && len(roles) == 0 && (c.Has("launcher") || c.Has("registrar")) {
		problems = append(problems, fmt.Errorf("LOCAL_EXECUTOR_ROLES: is required for EXECUTOR=local where authentication is on: "+
			"everyone who may store a workflow can run commands on this machine; name the allowed roles, such as operator,compiler"))
	}
	if c.LocalExecutorUser != "" && c.Executor != "local" {
		problems = append(problems, fmt.Errorf("LOCAL_EXECUTOR_USER: is for EXECUTOR=local, and EXECUTOR is %s", c.Executor))
	}
	return problems
}

// commandLimits refuses workflows of callers without a role of LOCAL_EXECUTOR_ROLES. It runs after the
// gate.
func (a *App) commandLimits() registrarapi.Interceptors {
	roles, _ := a.cfg.commandRoles() // checked by Validate
	return registrarapi.Interceptors{Unary: func(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		id := auth.FromContext(ctx)
		named := slices.ContainsFunc(roles, id.Has)
		if len(roles) == 0 || len(id.Roles) == 0 || named || !bringsWorkflow(req) {
			return next(ctx, req)
		}
		return nil, schedule.Explain(schedule.ErrForbidden,
			"workflows are commands on the server's machine, and LOCAL_EXECUTOR_ROLES allows only %s to store them; the caller has none of these roles", auth.Rule{Roles: roles}.Names())
	}}
}

// bringsWorkflow reports whether a request would store a DAG.
func bringsWorkflow(req any) bool {
	switch r := req.(type) {
	case *carillonv1.PutWorkflowVersionRequest, *carillonv1.DeployWorkflowRequest:
		return true
	case *carillonv1.ApplySchedulesRequest:
		return len(r.GetWorkflows()) > 0
	}
	return false
}
