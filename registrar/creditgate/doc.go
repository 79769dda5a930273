// Package creditgate is part of step 1 of a slot's life, the upsert: it asks a
// billing service over HTTP whether an account can pay for a model, before a
// schedule is created that would run on it. docs/grants.md has the contract.
package creditgate
