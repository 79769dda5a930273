package console

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// retryPrefix begins the names of the form's fields of a RetryPolicy.
const retryPrefix = "retry_"

// retryTexts are the fields of a definition's retry policy; none has no texts.
func retryTexts(definition protoreflect.Message) map[string]string {
	texts := make(map[string]string)
	field := definition.Descriptor().Fields().ByName("retry")
	if field == nil || !definition.Has(field) {
		return texts
	}
	policy, ok := definition.Get(field).Message().Interface().(*carillonv1.RetryPolicy)
	if !ok {
		return texts
	}
	m := policy.ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		part := m.Descriptor().Fields().Get(i)
		if name := retryPrefix + string(part.Name()); part.IsList() {
			texts[name] = strings.Join(policy.GetOn(), ", ")
		} else if m.Has(part) {
			texts[name] = editText(m, part)
		}
	}
	return texts
}

// retryOf is the policy of the form; nil if all its fields are empty.
func retryOf(sent map[string]string) (policy *carillonv1.RetryPolicy, problems []violation) {
	policy = &carillonv1.RetryPolicy{}
	m := policy.ProtoReflect()
	empty := true
	for i := range m.Descriptor().Fields().Len() {
		part := m.Descriptor().Fields().Get(i)
		name := retryPrefix + string(part.Name())
		text := sent[name]
		if text == "" {
			continue
		}
		empty = false
		if part.IsList() {
			for class := range strings.SplitSeq(text, ",") {
				policy.On = append(policy.On, strings.TrimSpace(class))
			}
			continue
		}
		if problem := setField(m, part, text, nil); problem != "" {
			problems = append(problems, violation{name, problem})
		}
	}
	if empty {
		return nil, nil
	}
	return policy, problems
}
