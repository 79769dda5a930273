package launcher

// RequestHash is what makes two requests of one key the same.
var RequestHash = requestHash
