"""Colors of fits, by place among the names, on light and on dark pages.

Told apart by the color blind (after Okabe and Ito).
"""

LIGHT = ("#0072b2", "#c44e00", "#00795a", "#a04878", "#8a6d00", "#4b4b9b", "#555555")
DARK = ("#5db4ea", "#ff9a57", "#2fc79c", "#ea9fc8", "#e8c547", "#a9a9f5", "#c4c4c4")
HUES = tuple(zip(LIGHT, DARK, strict=True))
