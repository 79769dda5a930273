package auth_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/carillon/carillon/internal/auth"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestEveryCallHasARuleAndEveryRuleACall(t *testing.T) {
	var calls []string
	protoregistry.GlobalFiles.RangeFilesByPackage("carillon.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if string(service.FullName()) == carillonv1.Executor_ServiceDesc.ServiceName {
				continue // users serve it
			}
			for j := range service.Methods().Len() {
				calls = append(calls, "/"+string(service.FullName())+"/"+string(service.Methods().Get(j).Name()))
			}
		}
		return true
	})
	for _, call := range calls {
		rule, ok := auth.RuleOf(call)
		if !ok {
			t.Errorf("%s has no entry in rules.go, so every call is denied", call)
		}
		if rule.Anyone {
			t.Errorf("%s admits callers without credentials", call)
		}
		if len(rule.Roles) == 0 {
			t.Errorf("%s has no role", call)
		}
	}
	for method := range auth.Rules {
		if strings.HasPrefix(method, "/carillon.v1.") && !slices.Contains(calls, method) {
			t.Errorf("%s has an entry in rules.go and is no call", method)
		}
	}
}
