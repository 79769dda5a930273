// Package authtest makes valid and invalid tokens and certificates. Only tests import it: the same
// vectors are used for the verifiers and for the listeners.
package authtest
