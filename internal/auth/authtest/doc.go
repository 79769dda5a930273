// Package authtest makes what callers show: tokens and certificates of an issuer
// of its own, and all kinds of bad ones. It takes no step in a slot's life: only
// tests import it, so that the same vectors are tried on what checks them and on
// the doors that serve it.
package authtest
