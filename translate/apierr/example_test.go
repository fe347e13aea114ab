package apierr_test

import (
	"fmt"

	"penstock/translate/apierr"
)

func Example() {
	err := apierr.Invalid("temperature", apierr.CodeInvalidValue, "temperature must be between %d and %d.", 0, 2)
	fmt.Println(err)
	fmt.Println(string(err.AppendBody(nil)))
	// Output:
	// 400 invalid_request_error invalid_value (temperature)
	// {"error":{"message":"temperature must be between 0 and 2.","type":"invalid_request_error","code":"invalid_value","param":"temperature"}}
}
