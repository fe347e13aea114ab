package template

import (
	"cmp"
	"fmt"
	"reflect"
)

// concrete is what an interface holds.
func concrete(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// indirect is what an interface or a pointer leads to; nothing for nil.
func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}

// printable is what fmt is given: a value that has a text of its own, itself or, with byPointer, by
// its pointer, or what a pointer leads to.
func printable(v reflect.Value, byPointer bool) any {
	if v.Kind() == reflect.Func {
		fail("a function cannot be printed")
	}
	for !hasText(v.Type()) {
		switch {
		case byPointer && v.CanAddr() && hasText(reflect.PointerTo(v.Type())):
			v = v.Addr()
		case v.Kind() == reflect.Pointer && !v.IsNil():
			v = v.Elem()
		default:
			return v.Interface()
		}
	}
	return v.Interface()
}

func hasText(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[fmt.Stringer]()) || t.Implements(reflect.TypeFor[error]())
}

// truth reports whether a value is neither zero nor empty. A struct is always true.
func truth(v reflect.Value) bool {
	switch v = concrete(v); v.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Slice, reflect.Array, reflect.Map, reflect.String:
		return v.Len() > 0
	case reflect.Struct:
		return true
	}
	return !v.IsZero()
}

// call calls a function and returns its value.
func call(name string, fn reflect.Value, args []reflect.Value) reflect.Value {
	t := fn.Type()
	fixed := t.NumIn()
	if t.IsVariadic() {
		fixed--
	}
	if len(args) < fixed || len(args) > fixed && !t.IsVariadic() {
		fail("%s has %d arguments", name, len(args))
	}
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		want := t.In(min(i, t.NumIn()-1))
		if i >= fixed {
			want = want.Elem()
		}
		in[i] = fit(name, a, want)
	}
	out := fn.Call(in)
	if len(out) == 2 && !out[1].IsNil() {
		fail("%s: %v", name, out[1])
	}
	return out[0]
}

// takes reports whether a function's first parameter takes a value.
func takes(fn reflect.Type, v reflect.Value) bool {
	return fn.NumIn() > 0 && fitting(v, fn.In(0)).IsValid()
}

// fit makes an argument what a parameter wants.
func fit(name string, v reflect.Value, want reflect.Type) reflect.Value {
	if v = concrete(v); !v.IsValid() {
		return reflect.Zero(want)
	}
	out := fitting(v, want)
	if !out.IsValid() {
		fail("%s: a %s where a %s is wanted", name, v.Type(), want)
	}
	return out
}

// fitting is a value as it is, what it points to, a pointer to it, or its number as another kind,
// whichever is of a type; otherwise nothing.
func fitting(v reflect.Value, want reflect.Type) reflect.Value {
	switch {
	case v.Type().AssignableTo(want):
		return v
	case v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Type().AssignableTo(want):
		return v.Elem()
	case v.CanAddr() && v.Addr().Type().AssignableTo(want):
		return v.Addr()
	case v.Kind() == reflect.Int && want.Kind() >= reflect.Int && want.Kind() <= reflect.Float64:
		return v.Convert(want)
	}
	return reflect.Value{}
}

// builtins are the functions of the language that every set has; and, or and call are known to the
// renderer.
var builtins = Funcs{
	"and": fmt.Sprint, "or": fmt.Sprint, "call": fmt.Sprint, // their names, for the parser
	"not":    func(v any) bool { return !truth(reflect.ValueOf(v)) },
	"len":    func(v any) int { return indirect(reflect.ValueOf(v)).Len() },
	"index":  index,
	"print":  fmt.Sprint,
	"printf": fmt.Sprintf,
	"eq":     equal,
	"ne":     func(a, b any) bool { return !equal(a, b) },
	"lt":     func(a, b any) bool { return order(a, b) < 0 },
	"le":     func(a, b any) bool { return order(a, b) <= 0 },
	"gt":     func(a, b any) bool { return order(a, b) > 0 },
	"ge":     func(a, b any) bool { return order(a, b) >= 0 },
}

// index is one of a slice's values, or one of a map's.
func index(v, i any) any {
	switch all := indirect(reflect.ValueOf(v)); all.Kind() {
	case reflect.Map:
		if found := all.MapIndex(fit("index", reflect.ValueOf(i), all.Type().Key())); found.IsValid() {
			return found.Interface()
		}
		return reflect.Zero(all.Type().Elem()).Interface()
	default:
		n, isInt := i.(int)
		if !isInt || all.Kind() != reflect.Slice && all.Kind() != reflect.Array || n < 0 || n >= all.Len() {
			fail("index %v of a %T", i, v)
		}
		return all.Index(n).Interface()
	}
}

// equal reports whether a is one of the others.
func equal(a any, others ...any) bool {
	for _, b := range others {
		if order(a, b) == 0 {
			return true
		}
	}
	return false
}

func order(a, b any) int { return compare(reflect.ValueOf(a), reflect.ValueOf(b)) }

// compare orders numbers, texts and truths.
func compare(a, b reflect.Value) int {
	a, b = concrete(a), concrete(b)
	switch {
	case a.CanInt() && b.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint() && b.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanInt() && b.CanUint():
		return -compare(b, a)
	case a.CanUint() && b.CanInt():
		if b.Int() < 0 {
			return 1
		}
		return cmp.Compare(a.Uint(), uint64(b.Int()))
	case a.CanFloat() && b.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	case a.Kind() == reflect.String && b.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String())
	case a.Kind() == reflect.Bool && b.Kind() == reflect.Bool && a.Bool() == b.Bool():
		return 0
	case a.Kind() == reflect.Bool && b.Kind() == reflect.Bool:
		return -1
	}
	fail("%v and %v cannot be compared", a, b)
	return 0
}
