"""What ops refuse, in which words: the one list by which suites over samples leave calls out.

Takes an exception that eager code raised for a sample; says whether it is of a class and text that are
listed here. Suites raise whatever is not: a mistake of a suite's own (a call that it spells wrongly, an
array where a tensor is due) would otherwise pass for an op that does not take a dtype.
`tests/whole/test_refusals.py` holds how much is left out, and that nothing stands here in vain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from weft.core.dtypes import BOOL, COMPLEX, dtype, float32, float64
from weft.core.errors import LinAlgError

Words = tuple[type[Exception], str]

OF_DTYPE: tuple[Words, ...] = (
    (NotImplementedError, r"\"\w+\" not implemented for 'KIND'"),
    (NotImplementedError, r"identity of \w+ on KIND input"),
    (RuntimeError, r"[\w.]+(\(\))?: Expected a floating point or complex tensor as input\. Got KIND"),
    (RuntimeError, r"[\w.]+: Low precision dtypes not supported\. Got KIND"),
    (RuntimeError, r"Expected both inputs to be Half, Float or Double tensors but got KIND and KIND"),
    (RuntimeError, r"Expected floating point type for target with class probabilities, got KIND"),
    (RuntimeError, r"Expected tensor for argument #1 'weight' to have .*; but got torch\.KINDTensor .*"),
    (RuntimeError, r"\w+ distribution is a continuous probability distribution\. dtype must be .*"),
    (RuntimeError, r"Only supports floating-point dtypes, but found: KIND"),
    (RuntimeError, r"This function doesn't handle types other than float and double"),
    (RuntimeError, r"Unknown Complex ScalarType for KIND"),
    (RuntimeError, r"Unsupported dtype KIND"),
    (RuntimeError, r"a real transform of KIND elements: they must be real"),
    (RuntimeError, r"(cdist|multinomial) only supports floating-point dtypes.*[: ]KIND"),
    (RuntimeError, r"(pdist|torch\.frexp\(\)) only supports floating-point dtypes"),
    (RuntimeError, r"cov\(\): expected aweights to have floating point dtype but got .* KIND dtype"),
    (RuntimeError, r"expected common dtype to be floating point, yet common dtype is KIND"),
    (RuntimeError, r"expected scalar type Float but found KIND"),
    (RuntimeError, r"(ihfft|rfft|rfftn) expects a real(-valued)? input tensor, but got KIND"),
    (RuntimeError, r"istft : a window of KIND elements"),
    (RuntimeError, r"linalg\.pinv\(KIND\{.*\}\): expected a tensor with 2 or more dimensions of float.*"),
    (RuntimeError, r"mean\(\): could not infer output dtype\. .* Got: KIND"),
    (RuntimeError, r"nanmean\(\): expected input to have floating point or complex dtype but got KIND"),
    (RuntimeError, r"quantile\(\) input tensor must be either float or double dtype"),
    (RuntimeError, r"result type Float can't be cast to the desired output type KIND"),
    (RuntimeError, r"(std and var|std_mean|var_mean) only support floating point and complex dtypes"),
    (RuntimeError, r"stft\(torch\.KINDTensor.*\) : expected a tensor of floating point or complex values"),
    (RuntimeError, r"view_as_complex is only supported for .*, but got a tensor of scalar type: KIND"),
    (RuntimeError, r"torch\.linalg\.ldl_solve: LD and B must be of one dtype, and pivots one int32 .*"),
    (ValueError, r"Expected theta to have floating point type, but got KIND"),
    (ValueError, r"mean\(\): Could not infer output dtype\. .* Got: KIND"),
    (AssertionError, r"only bool and floating types of attn_mask are supported"),
)
"""Of any dtype but float32 and float64, which every sample of every op takes. KIND is its name."""

OF_WHOLE_NUMBERS: tuple[Words, ...] = (
    (RuntimeError, r"kl_div: Integral inputs not supported\."),
    (RuntimeError, r"Integer division with addcdiv is no longer supported, .*"),
    (RuntimeError, r"Integers to negative integer powers are not allowed\."),
    (RuntimeError, r"cannot do hardtanh on an unsigned type with negative limits"),
    (RuntimeError, r"invalid multinomial distribution \(sum of probabilities <= 0\)"),
    (OverflowError, r"Python integer -1 out of bounds for uint8"),
    (KeyError, r"dtype\('KIND'\)"),  # philox_uniform_like: those who call it ask before
    (ValueError, r"data type .*bool'.* not (inexact|compatible with finfo)"),  # philox_geometric_like, too
)

OF_BOOLS: tuple[Words, ...] = (
    (RuntimeError, r"(Subtraction|Negation), the `-` operator, (on|with) (a|two) bool tensors? .*"),
    (RuntimeError, r"The `\+` operator, on a bool tensor is not supported\."),
    (RuntimeError, r"(argmax|argmin)\(\): does not support bool input"),
    (RuntimeError, r"cov\(\): bool dtype is not supported for input"),
    (RuntimeError, r"(cumulative_)?trapezoid: received a bool input for .*, but bool is not supported"),
    (RuntimeError, r"linalg\.vander supports floating point, complex, and integer tensors, but got KIND"),
    (RuntimeError, r"expected m1 and m2 to have the same dtype, but got: long int != bool"),
    (RuntimeError, r"to - 1 is out of bounds for bool"),
    (RuntimeError, r"topk does not support bool dtypes on CPU"),
    (RuntimeError, r"Bool(ean)? inputs not supported for (hardtanh|relu)"),
)

OF_COMPLEX_NUMBERS: tuple[Words, ...] = (
    (RuntimeError, r"kl_div: Complex inputs not supported\."),
    (NotImplementedError, r"\w+ is not (supported|implemented) for complex (inputs|types|tensors)\.?"),
    (NotImplementedError, r"Unlike NumPy, torch\.sign is not intended to support complex numbers\. .*"),
    (RuntimeError, r" ?\w+(\(\)| on CPU)? does not support complex (dtypes on CPU|inputs?)\.?"),
    (RuntimeError, r"\w+\(\): does not support complex input"),
    (RuntimeError, r"\w+ (is not supported|(is )?not (yet )?implemented) for complex tensors\."),
    (RuntimeError, r"linalg\.\w+_norm: dtype should be complex for complex inputs, but got Double"),
    (RuntimeError, r"normal expects standard deviation to be non-complex"),
    (RuntimeError, r"check_random_bounds handles only integral, floating-point and boolean types"),
    (OverflowError, r"Python int too large to convert to C long"),  # philox_full_range_like, likewise
    (LinAlgError, r"linalg\.cholesky: .* the input is not positive-definite .*"),  # samples are not Hermitian
)

OF_GRADIENTS: tuple[Words, ...] = (
    (NotImplementedError, r"derivative for \w+ is not implemented"),
    (NotImplementedError, r"the derivative for '(igamma|igammac): input' is not implemented\."),
    (RuntimeError, r"derivative for aten::(_ctc_loss_backward|floor_divide|heaviside) is not implemented"),
    (RuntimeError, r"The QR decomposition is not differentiable when mode='complete' and nrows > ncols\."),
    (RuntimeError, r"The derivative of linalg\.qr depends on Q, which is not computed when mode='r'\. .*"),
)
"""Of floats, where a gradient is asked for."""

OF_WRITES: tuple[Words, ...] = (
    (RuntimeError, r"output with shape \[[\d, ]*\] doesn't match the broadcast shape \[[\d, ]*\]"),
    (RuntimeError, r"the base given to float_power_ has dtype Float but the operation's result requires .*"),
    (RuntimeError, r"a (leaf Variable|view of a leaf Variable) that requires grad is being used in .*"),
)
"""Where the in-place form is called with what the plain one takes."""

OF_LAYOUTS: tuple[Words, ...] = (
    (RuntimeError, r"Tensor must have a last dimension with stride 1"),
    (RuntimeError, r"view size is not compatible with input tensor's size and stride .*"),
)
"""Where what a sample gives row by row lies in another order."""


def is_listed(error: Exception, listed: Iterable[Words], kind: dtype | None = None) -> bool:
    """Whether the class and the whole text of an error are those of an entry."""
    name = "" if kind is None else rf"(?:{kind.scalar_name}|(?:weft\.)?{kind.name})"
    return any(
        type(error) is each and re.fullmatch(words.replace("KIND", name), str(error), re.DOTALL)
        for each, words in listed
    )


def of_dtype(kind: dtype) -> tuple[Words, ...]:
    """The words by which ops may refuse samples of a dtype."""
    if kind in (float32, float64):
        return ()
    if kind.category == COMPLEX:
        return (*OF_DTYPE, *OF_COMPLEX_NUMBERS)
    if kind.is_floating_point:
        return OF_DTYPE
    return (*OF_DTYPE, *OF_WHOLE_NUMBERS, *(OF_BOOLS if kind.category == BOOL else ()))


def expect(error: Exception, kind: dtype, *more: Words) -> None:
    """Raises what is neither listed for samples of this dtype nor among `more`."""
    if not is_listed(error, (*of_dtype(kind), *more), kind):
        raise error
